"""The parts of a step between its matrix products, in the form that is fastest.

There a step is bound by memory: TensorFlow passes over a whole tensor for every
addition, multiplication and sum. `fused` has XLA compile a function into one
pass, and its gradient into another one, which computes again what it needs
instead of keeping it. oneDNN has one kernel for some such parts, if they are
written as it knows them. Who traces the model says which `form` it wants; a
TPU runs plain operations of the same functions.
"""

import contextlib
import enum
import functools
import threading
from collections.abc import Callable

import tensorflow as tf

from modeling.config import BertConfig

# Wordpieces times layers times hidden size after which fusion has gained the
# 0.5 to 1 s that compiling a step's parts for one length takes, and as much
# again: 24 ms of each step of 4 x 256 on 32 x 128, so 48 of them
# (docs/performance.md).
_REPAID = 2e8

_scope = threading.local()


class Form(enum.Enum):
    """How the functions of this package write what they compute."""

    PLAIN = enum.auto()
    COMPILED = enum.auto()
    """Functions under `fused` are compiled: for training, where it `pays`."""
    KERNELS = enum.auto()
    """For inference on a CPU: elsewhere it is slower, or not to be had."""
    SERVED = enum.auto()
    """For export: fast for one text, as good on any device; no gradient."""


@contextlib.contextmanager
def form(chosen: Form):
    """Within it, functions are written in the chosen form."""
    before = current()
    _scope.form = chosen
    try:
        yield
    finally:
        _scope.form = before


def current() -> Form:
    """The form in which functions are written just now."""
    return getattr(_scope, "form", Form.PLAIN)


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
    """Has a function compiled where the form is `Form.COMPILED`.

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
        if current() is not Form.COMPILED:
            return function(*arguments, **constants)

        @tf.custom_gradient
        def call(*arguments):
            return forward(*arguments, **constants), lambda upstream: backward(
                arguments, upstream, **constants
            )

        return call(*arguments)

    return choose
