"""What the functions of all exported models share: rows, in and checked.

Axes: B batch, C choices, S wordpieces.
"""

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from data.records import reading
from data.records.feature_spec import FeatureSpec, encode_examples
from modeling import BertConfig, kernels

INPUTS = ("input_ids", "input_mask", "segment_ids")


def row_signatures(
    answer: Callable[..., dict[str, tf.Tensor]],
    ids: tf.TensorSpec,
    specs: Sequence[FeatureSpec],
    sep_id: int,
) -> dict[str, Callable]:
    """The signatures of ids and records, which all models have.

    Args:
      answer: of `input_ids`, `input_mask`, `segment_ids`.
      ids: theirs, int32 [None, None] or [None, C, None].
      specs: of the records.
      sep_id: id of [SEP].
    """
    choices = ids.shape.as_list()[1:-1]
    shape = [-1, *choices, specs[0].length // math.prod(choices)]

    @as_function([ids, ids, ids])
    def serving_default(input_ids, input_mask, segment_ids):
        return answer(input_ids, input_mask, segment_ids)

    @as_function([ids])
    def serve_ids(input_ids):
        return answer(input_ids, *mask_and_segments(input_ids, sep_id))

    @as_function([strings(None)])
    def serve_examples(examples):
        rows = reading.parse_batch(specs, examples)
        return answer(*(tf.reshape(rows[name], shape) for name in INPUTS))

    return {
        "serving_default": serving_default,
        "serve_ids": serve_ids,
        "serve_examples": serve_examples,
    }


def row_samples(
    ids: np.ndarray, specs: Sequence[FeatureSpec]
) -> dict[str, dict[str, list]]:
    """One example for each of the `row_signatures`.

    Args:
      ids: int32 [1, ..., S].
      specs: of the records.
    """
    values = ids, np.ones_like(ids), np.zeros_like(ids)
    rows = dict(zip(INPUTS, values, strict=True))
    columns = {name: x.reshape(1, -1) for name, x in rows.items()}
    return {
        "serving_default": rows,
        "serve_ids": {"input_ids": ids},
        "serve_examples": {"examples": encode_examples(specs, columns)},
    }


def as_function(specs: Sequence[tf.TensorSpec]) -> Callable:
    """Decorates a function of tensors; it has no Python to be converted."""

    def decorate(function):
        @functools.wraps(function)
        def served(*arguments):
            with kernels.form(kernels.Form.SERVED):
                return function(*arguments)

        return tf.function(served, input_signature=specs, autograph=False)

    return decorate


def strings(*shape: int | None) -> tf.TensorSpec:
    """Strings of a shape."""
    return tf.TensorSpec(shape, tf.string)


def named_rows(
    input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
) -> dict[str, tf.Tensor]:
    """The rows by name; refuses, in the graph, those of different shapes.

    A shorter mask would cut the ids, one of a single row would count for all.

    Args:
      input_ids: int32 [..., S].
      input_mask: likewise.
      segment_ids: likewise.
    """
    rows = dict(zip(INPUTS, (input_ids, input_mask, segment_ids), strict=True))
    shape = tf.shape(input_ids)
    checks = [
        tf.debugging.Assert(
            tf.reduce_all(tf.shape(rows[name]) == shape),
            [f"{name} must have the shape of input_ids,", shape],
        )
        for name in INPUTS[1:]
    ]
    with tf.control_dependencies(checks):
        return {name: tf.identity(x) for name, x in rows.items()}


def trim_rows(rows: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Cuts the padding that all rows share.

    Args:
      rows: with `input_mask`; int32 [..., S].
    """
    size = tf.shape(rows["input_mask"])[-1]
    needed = tf.reduce_max(rows["input_mask"] * tf.range(1, size + 1))
    length = tf.minimum(tf.maximum(needed, 1), size)
    return {name: x[..., :length] for name, x in rows.items()}


def checked_rows(
    rows: dict[str, tf.Tensor], config: BertConfig
) -> dict[str, tf.Tensor]:
    """Refuses, in the graph, what the tables of the model do not hold.

    Args:
      rows: `input_ids`, `input_mask`, `segment_ids`, int32 [..., S].
      config: of the model.

    Returns:
      The rows, which are there only when they are good.
    """
    most = config.max_position_embeddings
    checks = [
        tf.debugging.Assert(
            tf.shape(rows["input_ids"])[-1] <= most,
            [f"input_ids has rows of over {most} wordpieces; shorten them."],
        )
    ]
    for name, limit in (
        ("input_ids", config.vocab_size),
        ("segment_ids", config.type_vocab_size),
    ):
        is_good = tf.reduce_all((rows[name] >= 0) & (rows[name] < limit))
        message = f"{name} must be 0 to {limit - 1}, as the model has them."
        checks.append(tf.debugging.Assert(is_good, [message]))
    with tf.control_dependencies(checks):
        return {name: tf.identity(x) for name, x in rows.items()}


def mask_and_segments(
    input_ids: tf.Tensor, sep_id: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """What belongs to ids, from them alone.

    Args:
      input_ids: int32 [..., S], as `packing.pack` makes them.
      sep_id: id of [SEP].

    Returns:
      `input_mask` and `segment_ids`, of the same shape.
    """
    input_mask = tf.cast(input_ids != 0, tf.int32)
    is_sep = tf.cast(input_ids == sep_id, tf.int32)
    before = tf.cumsum(is_sep, axis=-1, exclusive=True)
    return input_mask, tf.minimum(before, 1) * input_mask
