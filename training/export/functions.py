"""Functions of tensors, as signatures are made of."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from modeling import kernels
from modeling.kernels.recomputation import one_by_one

Tensors = dict[str, tf.Tensor]


def as_function(function: Callable[..., Tensors], *specs: Any) -> Callable:
    """Returns a `tf.function` of tensors; autograph does not convert it.

    `specs` are a `tf.TensorSpec` of each argument, or several in a dict.
    """
    served = kernels.form(kernels.Form.SERVED)(function)
    return tf.function(served, input_signature=specs, autograph=False)


def of_texts(function: Callable, **sample: Any) -> tuple[Callable, dict]:
    """Returns a `tf.function` of strings in the sample's form, and the sample.

    The first axis has any size B; the graph refuses tensors with different B.
    """
    shapes = [[None, *np.shape(x)[1:]] for x in sample.values()]
    if len(shapes) > 1:
        function = _of_examples(function)
    specs = [tf.TensorSpec(shape, tf.string) for shape in shapes]
    return as_function(function, *specs), sample


def padded(values: tf.Tensor, mask: tf.Tensor, value: float = 0.0) -> tf.Tensor:
    """Adds a value after [B, S, L] values until S is that of a mask [B, S]."""
    missing = tf.shape(mask)[1] - tf.shape(values)[1]
    return tf.pad(values, [[0, 0], [0, missing], [0, 0]], constant_values=value)


def checked(tensors: Tensors, checks: Iterable[tuple[Any, ...]]) -> Tensors:
    """Returns tensors that the graph refuses to compute if a check fails.

    Each check is a bool scalar and the parts of its message.
    """
    asserts = [tf.debugging.Assert(holds, parts) for holds, *parts in checks]
    with tf.control_dependencies(asserts):
        return {name: tf.identity(x) for name, x in tensors.items()}


def _of_examples(function: Callable[..., Tensors]) -> Callable[..., Tensors]:
    """Decorates a function of [B, ...] texts; B, which is checked, may be 0."""
    first, *others = inspect.signature(function).parameters

    @functools.wraps(function)
    def of_any(*arguments, **texts):  # by name if functions run eagerly
        texts |= zip((first, *others), arguments, strict=False)
        count, *counts = (tf.shape(texts[x])[0] for x in (first, *others))
        must = f"{first} and {{}} must have one text for each example, but have"
        pairs = zip(others, counts, strict=True)
        checks = [(n == count, must.format(x), count, n) for x, n in pairs]
        texts = checked(texts, checks)
        missing = 1 - tf.minimum(count, 1)
        filled = {
            name: tf.concat([x, tf.fill([missing, *x.shape[1:]], "")], axis=0)
            for name, x in texts.items()
        }
        return {n: x[:count] for n, x in function(**filled).items()}

    return of_any


def in_parts(
    function: Callable, rows: Tensors, at_once: int, shape: Sequence[int | None]
) -> tf.Tensor:
    """Applies a function of rows [N, S] to `at_once` rows at a time.

    This bounds the memory for activations. `shape` is that of a row's value; a
    size is None if it varies, and then there must be a row.
    """
    num_parts = -(-tf.shape(rows["input_ids"])[0] // at_once)

    def compute(i, values):
        places = slice(i * at_once, (i + 1) * at_once)
        some = {name: x[places] for name, x in rows.items()}
        return values.write(i, function(some))

    values = tf.TensorArray(
        tf.float32, num_parts, element_shape=[None, *shape], infer_shape=False
    )
    return one_by_one(compute, num_parts, values).concat()


def save(folder: str, weights: Mapping, signatures: Mapping) -> None:
    """Writes signatures, name -> `tf.function`, as a SavedModel."""
    # Signatures may use only variables that the saved object tracks.
    module = tf.Module()
    module.weights = list(weights.values())
    before = logging.get_verbosity()
    # TensorFlow logs how it renames the inner inputs of every function.
    logging.set_verbosity(logging.WARNING)
    try:
        tf.saved_model.save(module, folder, signatures=signatures)
    finally:
        logging.set_verbosity(before)
