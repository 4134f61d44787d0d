"""Checkpoints made of others: averaged, or with layers copied."""

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from modeling import checkpoints

_LAYER = re.compile(r"/layer_(\d+)/")


def average(prefixes: Iterable[str], target: Path) -> Path:
    """Writes the mean of several checkpoints' weights; returns its prefix."""
    found = [checkpoints.Checkpoint(prefix).weights() for prefix in prefixes]
    tensors = {
        name: np.mean([one[name] for one in found], axis=0) for name in found[0]
    }
    checkpoints.write(str(target), tensors)
    return target


def stack(folder: Path, target: Path, num_layers: int) -> Path:
    """Writes a model whose layers are those of a smaller one, in turns.

    Layer i is the smaller one's layer i % their number, as in Gong et al.,
    "Efficient Training of BERT by Progressively Stacking" (ICML 2019). Returns
    the prefix of the checkpoint.
    """
    found = checkpoints.open_checkpoint(str(folder)).weights()
    layers = [_LAYER.search(name) for name in found]
    number = 1 + max(int(layer[1]) for layer in layers if layer)
    tensors = {}
    for (name, value), layer in zip(found.items(), layers, strict=True):
        if not layer:
            tensors[name] = value
            continue
        for copy in range(int(layer[1]), num_layers, number):
            tensors[_LAYER.sub(f"/layer_{copy}/", name)] = value
    checkpoints.write(str(target), tensors)
    return target
