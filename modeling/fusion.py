"""Elementwise parts of a training step, each compiled into one loop.

Between its matrix products a step is bound by memory: TensorFlow passes over
a whole tensor for every addition, multiplication and sum. `fused` has XLA
compile a function into one pass, and its gradient into another one, which
computes again what it needs instead of keeping it.

Only training asks for it (`enabled`): what is exported, and what a TPU runs,
are plain operations, of the same functions.
"""

import contextlib
import functools
import threading
from collections.abc import Callable

import tensorflow as tf

_scope = threading.local()


@contextlib.contextmanager
def enabled(on: bool):
    """Within it, functions under `fused` are compiled, if `on`."""
    before = is_enabled()
    _scope.on = on
    try:
        yield
    finally:
        _scope.on = before


def is_enabled() -> bool:
    """Whether functions under `fused` are compiled just now."""
    return getattr(_scope, "on", False)


_compiled = functools.partial(tf.function, jit_compile=True, autograph=False)


def fused(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Has a function compiled where fusion is `enabled`.

    Args:
      function: from tensors, and constants by keyword, to a float tensor;
        without a matrix product, which XLA does slowly on a CPU.

    Returns:
      The same function, with the same gradient for every floating tensor.
    """
    forward = _compiled(function)

    @_compiled
    def backward(arguments, upstream, **constants):
        watched = [x for x in arguments if x.dtype.is_floating]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(watched)
            y = function(*arguments, **constants)
        gradients = iter(tape.gradient(y, watched, upstream))
        return [
            next(gradients) if x.dtype.is_floating else None for x in arguments
        ]

    @functools.wraps(function)
    def choose(*arguments, **constants):
        if not is_enabled():
            return function(*arguments, **constants)

        @tf.custom_gradient
        def call(*arguments):
            return forward(*arguments, **constants), lambda upstream: backward(
                arguments, upstream, **constants
            )

        return call(*arguments)

    return choose
