"""Checkpoints made of others: averaged, or with layers copied."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from modeling import checkpoints
from modeling.checkpoints import tf1

_LAYER = re.compile(r"/layer_(\d+)/")


def average(prefixes: Sequence[str], target: Path) -> Path:
    """Writes the mean of the weights of several checkpoints.

    Args:
      prefixes: of the checkpoints.
      target: prefix of the mean.

    Returns:
      The target.
    """
    found = [checkpoints.Checkpoint(prefix) for prefix in prefixes]
    tensors = {
        name: np.mean([one.read(name) for one in found], axis=0)
        for name in found[0].shapes
        if tf1.is_weight(name)
    }
    checkpoints.write(str(target), tensors)
    return target


def stack(folder: Path, target: Path, num_layers: int) -> Path:
    """Writes a model whose layers are those of a smaller one, in turns.

    Args:
      folder: of the smaller one. Layer i of the larger one is its layer i %
        their number, as in Gong et al., "Efficient Training of BERT by
        Progressively Stacking" (ICML 2019).
      target: prefix of the checkpoint.
      num_layers: of the larger one.

    Returns:
      The target.
    """
    found = checkpoints.Checkpoint(str(folder))
    names = [name for name in found.shapes if tf1.is_weight(name)]
    layers = [_LAYER.search(name) for name in names]
    number = 1 + max(int(layer[1]) for layer in layers if layer)
    tensors = {}
    for name, layer in zip(names, layers, strict=True):
        value = found.read(name)
        if not layer:
            tensors[name] = value
            continue
        for copy in range(int(layer[1]), num_layers, number):
            tensors[_LAYER.sub(f"/layer_{copy}/", name)] = value
    checkpoints.write(str(target), tensors)
    return target
