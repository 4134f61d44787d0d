"""Functions of tensors, as signatures are made of."""

import functools
from collections.abc import Callable, Sequence

import tensorflow as tf

from modeling import kernels


def as_function(specs: Sequence[tf.TensorSpec]) -> Callable:
    """Decorates a function of tensors; autograph does not convert it."""

    def decorate(function):
        @functools.wraps(function)
        def served(*arguments):
            with kernels.form(kernels.Form.SERVED):
                return function(*arguments)

        return tf.function(served, input_signature=specs, autograph=False)

    return decorate


def strings(*shape: int | None) -> tf.TensorSpec:
    """Returns the spec of a string tensor."""
    return tf.TensorSpec(shape, tf.string)
