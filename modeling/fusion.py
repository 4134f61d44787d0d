"""Elementwise parts of a step, each in one loop or one kernel.

Between its matrix products a step is bound by memory: TensorFlow passes over
a whole tensor for every addition, multiplication and sum. `fused` has XLA
compile a function into one pass, and its gradient into another one, which
computes again what it needs instead of keeping it.

Only training asks for it (`enabled`), where it `pays`. On a CPU evaluation and
prediction ask for what oneDNN has one kernel for (`kernels`). What is
exported, and what a TPU runs, are plain operations, of the same functions.
"""

import contextlib
import functools
import threading
from collections.abc import Callable

import tensorflow as tf

from modeling.config import BertConfig

# Compiling a step's parts for one length takes as long as fusion gains for so
# many wordpieces times layers times hidden size: 0.7 s, and 52 ms of a step of
# 4 x 256 on 32 x 128 (benchmarks/README.md).
_REPAID = 2e8

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


@contextlib.contextmanager
def kernels(on: bool):
    """Within it, what oneDNN has one kernel for is written as it knows it.

    For inference on a CPU, and not for export: elsewhere it is slower, or not
    to be had.
    """
    before = in_one_kernel()
    _scope.kernels = on
    try:
        yield
    finally:
        _scope.kernels = before


def in_one_kernel() -> bool:
    """Whether `kernels` is on just now."""
    return getattr(_scope, "kernels", False)


def pays(
    config: BertConfig,
    *,
    num_steps: int,
    batch_size: int,
    seq_length: int,
    num_lengths: int = 1,
) -> bool:
    """Whether training is long enough to repay what compiling costs.

    Args:
      config: the model's sizes.
      num_steps: updates in all.
      batch_size: examples of each.
      seq_length: S, or the longest one that batches are trimmed to.
      num_lengths: how many there are; each is compiled. About a half of
        their wordpieces are taken for real then.
    """
    wordpieces = num_steps * batch_size * seq_length
    if num_lengths > 1:
        wordpieces //= 2
    size = config.num_hidden_layers * config.hidden_size
    return wordpieces * size >= _REPAID * num_lengths


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
