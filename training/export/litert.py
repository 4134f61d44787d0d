"""Writes a trained model as files of LiteRT; `litert_model` names them.

They compute logits or a vector from the ids of one row of any length, with
built-in operations alone. 8-bit matrices are quantized with a scale per column,
the word embeddings with one scale; activations are quantized in each call.
"""

import dataclasses
import hashlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

from data.storage import files, json_files
from data.text.packing import INPUTS
from modeling import kernels
from training.export.functions import save
from training.export.litert_model import CARD, FLOAT, INT8, SCORES, SIGNATURE
from training.export.serving import Serving

# Kind -> what its model computes: S wordpieces, L labels, H hidden.
_OUTPUTS = {
    **dict.fromkeys(("classification", "multilabel"), "logits [1, L]"),
    "regression": "the number [1, 1]",
    "tagging": "logits of each wordpiece [1, S, L]",
    "span": "logits of each wordpiece as start and end [1, S, 2]",
    "vectors": "the vector [1, H]",
}
_INPUT = "int32 [1, S], S = 1 to max_seq_length: resize it before the call"


def write(serving: Serving, figures: dict[str, Any], folder: str) -> None:
    """Writes both files, and a card with `figures` about the model.

    Raises ValueError for a model that has no such file.
    """
    said, sizes = serving.description, {}
    if said.kind not in _OUTPUTS:
        raise ValueError(
            f"--export_format=litert is for {', '.join(_OUTPUTS)}, but this "
            f"model is of the kind {said.kind}; leave it out."
        )
    with tempfile.TemporaryDirectory() as source:
        save(source, serving.weights, {SIGNATURE: function_of(serving)})
        for name in (FLOAT, INT8):
            converter = tf.lite.TFLiteConverter.from_saved_model(source)
            if name == INT8:
                converter.optimizations = [tf.lite.Optimize.DEFAULT]
            content = converter.convert()
            with files.open_write(os.path.join(folder, name)) as file:
                file.write(content)
            checksum = hashlib.sha256(content).hexdigest()
            sizes[name] = {"bytes": len(content), "sha256": checksum}
            logging.info("%s: %.1f MB", name, len(content) / 1e6)
    card = {
        "model": serving.in_words(),
        "labels": getattr(said, "labels", ()),
        "max_seq_length": said.max_seq_length,
        "inputs": dict.fromkeys(INPUTS, _INPUT),
        "outputs": {SCORES: f"float32, {_OUTPUTS[said.kind]}"},
        "calibration": dataclasses.asdict(serving.calibration),
        "form": dataclasses.asdict(serving.form) if serving.form else None,
        "figures": figures,
        "files": sizes,
    }
    json_files.write_json(os.path.join(folder, CARD), card)


def function_of(serving: Serving) -> Callable:
    """Returns what the files compute, as a `tf.function`."""
    # The rest of a shape then follows from one unknown.
    specs = [tf.TensorSpec([1, None], tf.int32, name) for name in INPUTS]

    @tf.function(input_signature=specs, autograph=False)
    # The converter knows these operations; others would need Flex.
    @kernels.form(kernels.Form.PLAIN)
    def scores(*rows):
        return {SCORES: serving.scores(dict(zip(INPUTS, rows, strict=True)))}

    return scores
