"""Selects a form of computation, and has a block's operations in each form.

Outside of its matrix products, a training step is limited by memory bandwidth:
TensorFlow reads and writes a whole tensor for every addition, multiplication
and sum. The functions here need fewer passes.

Axis letters: see `layers`.
"""

import contextvars
import enum
import functools
from collections.abc import Callable

import tensorflow as tf

from modeling.kernels.scopes import during
from modeling.kernels.seeds import has_gpu

# A dropout rate is a number of these: 0.1 becomes 6554 / 65536 = 0.100006.
_NUM_DRAWS = 1 << 16


class Form(enum.Enum):
    """How the functions of this package compute."""

    PLAIN = enum.auto()
    """TensorFlow's own operations only; the reference for tests."""
    STANDARD = enum.auto()
    """The default: for training and inference on any device."""
    COMPILED = enum.auto()
    """STANDARD with elementwise parts in XLA: for long training."""
    KERNELS = enum.auto()
    """For inference on a CPU with oneDNN."""
    SERVED = enum.auto()
    """For export: fast for one text, correct on any device; no gradient."""


TRAINING = (Form.STANDARD, Form.COMPILED)  # custom gradients are allowed
_form = contextvars.ContextVar("form", default=Form.STANDARD)


def form(chosen: Form):
    """Selects the form of all functions that are called in its scope."""
    return during(_form, chosen)


def current() -> Form:
    """Returns the selected form."""
    return _form.get()


_compiled = functools.partial(tf.function, jit_compile=True, autograph=False)


def fused(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Compiles a function under `Form.COMPILED`: a step takes 7 to 11 % less.

    XLA turns the function into one loop, and its gradient into another one,
    which computes intermediate values again instead of storing them.

    The function maps tensors, and constants by keyword, to a float tensor. It
    has no matrix product, which XLA computes slowly on a CPU. Returns the same
    function, with the same gradient for every floating tensor.
    """
    forward = _compiled(function)

    @_compiled
    def backward(arguments, upstream, **constants):
        watched = [x for x in arguments if x.dtype.is_floating]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(watched)
            y = function(*arguments, **constants)
        found = iter(tape.gradient(y, watched, upstream))
        return [next(found) if x.dtype.is_floating else None for x in arguments]

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


def activate(x: tf.Tensor, *, name: str) -> tf.Tensor:
    """Applies an activation of `config.ACTIVATIONS`, elementwise.

    Compiled, gelu takes a third of the time.
    """
    if name == "linear":
        return x
    if current() is Form.COMPILED:
        return _activate_in_float32(x, name=name)
    return _activate(x, name)


def _activate(x, name):
    if name == "gelu":
        # Not the original's formula of 9 operations: directly after bias_add,
        # a CPU fuses this one operation into the matrix product.
        return tf.nn.gelu(x, approximate=True)
    if name == "gelu_exact":
        return tf.nn.gelu(x, approximate=False)
    return {"relu": tf.nn.relu, "tanh": tf.tanh}[name](x)


@fused
def _activate_in_float32(x, *, name):
    # XLA would round to 16 bits after every operation.
    return tf.cast(_activate(tf.cast(x, tf.float32), name), x.dtype)


def _drop(x, draws, *, rate):
    dropped = round(rate * _NUM_DRAWS)
    kept = tf.cast(draws >= tf.constant(dropped, tf.uint16), x.dtype)
    scale = _NUM_DRAWS / (_NUM_DRAWS - dropped)
    return x * (kept * tf.cast(scale, x.dtype))


_fused_drop = fused(_drop)


def drop(x: tf.Tensor, draws: tf.Tensor, *, rate: float) -> tf.Tensor:
    """Sets the elements with the lowest draws to 0 and scales the others.

    Compiled, it is one pass over x instead of four. The draws, uint16 in the
    shape of x, are made by `seeds.dropout_draws`; `rate` is the share to drop.
    """
    return _fused_drop(x, draws, rate=rate)


def layer_norm(
    x: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    epsilon: float,
    *,
    residual: tf.Tensor | None = None,
    rate: float = 0.0,
    draws: tf.Tensor | None = None,
) -> tf.Tensor:
    """Normalizes x, or residual + dropout(x), in float32.

    Compiled, forward and backward take two thirds of the time; oneDNN's kernel
    takes a fifth of the time forward.

    `x` and the residual are float [M, H] or [B, S, H], gamma and beta float32
    [H]; epsilon is added to the variance. For `rate` and `draws`, which need a
    residual, see `drop`; None = no dropout. Returns the shape and dtype of x.
    """
    given = [tensor for tensor in (residual, draws) if tensor is not None]
    return _layer_norm(x, gamma, beta, *given, rate=rate, epsilon=epsilon)


@fused
def _layer_norm(x, gamma, beta, residual=None, draws=None, *, rate, epsilon):
    if draws is not None:
        x = _drop(x, draws, rate=rate)
    if residual is not None:
        x = residual + x
    # TensorFlow simplifies a kernel of static shape, and oneDNN's pattern then
    # does not match.
    if current() is Form.KERNELS and None in x.shape.as_list():
        normed = _normed_rows(tf.reshape(x, [-1, x.shape[-1]]), epsilon)
        normed = normed * tf.cast(gamma, x.dtype) + tf.cast(beta, x.dtype)
        return tf.reshape(normed, tf.shape(x))
    rows = tf.cast(x, tf.float32)
    centred = rows - tf.reduce_mean(rows, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    normed = centred * tf.math.rsqrt(variance + epsilon)
    return tf.cast(normed * gamma + beta, x.dtype)


def _normed_rows(x, epsilon):
    """Normalizes the rows of x [M, H] to mean 0 and variance 1, in float32.

    oneDNN's graph rewriting recognizes a layer norm in this form, a batch norm
    of M channels with H values each, and replaces nine kernels by one.
    """
    num_rows = tf.shape(x)[0]
    normed = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(x, [1, num_rows, x.shape[-1], 1]),
        scale=tf.fill([num_rows], 1.0),
        offset=tf.fill([num_rows], 0.0),
        mean=tf.constant([]),
        variance=tf.constant([]),
        epsilon=epsilon,
        data_format="NCHW",
        is_training=True,
    )
    return tf.reshape(normed[0], tf.shape(x))


def add_bias(x: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Adds a bias [units] to each row of x [M, units].

    TensorFlow sums the gradient of a bfloat16 bias in bfloat16 on a CPU, and
    loses up to a third of the sum of 4,096 rows. This gradient is summed in
    float32, in two thirds of the time.
    """
    # TensorFlow never frees a custom gradient, so inference creates none.
    if x.dtype == tf.bfloat16 and current() in TRAINING:
        return _add_bias(x, bias)
    return tf.nn.bias_add(x, bias)


@tf.custom_gradient
def _add_bias(x, bias):
    def gradient(upstream):
        with tf.name_scope("bias_gradient"):
            ones = tf.ones([1, tf.shape(upstream)[0]], upstream.dtype)
            return upstream, tf.matmul(ones, upstream)[0]

    return tf.nn.bias_add(x, bias), gradient


def swap_heads(x: tf.Tensor) -> tf.Tensor:
    """Transposes [B, any, N, D] to [B, N, any, D], and back.

    oneDNN transposes floats and takes 40 us to prepare each call, four for each
    layer. It does not support complex numbers, so an exported model moves 8
    bytes at once as complex64: one text of MiniLM takes 4.7 ms, not 5.3.
    """
    order = [0, 2, 1, 3]
    width, size = x.shape[-1], 8 // x.dtype.size
    if current() is not Form.SERVED or width % size:
        return tf.transpose(x, order)
    shape = tf.gather(tf.shape(x), order)
    x = tf.reshape(x, tf.concat([tf.shape(x)[:3], [-1, size]], axis=0))
    moved = tf.transpose(tf.bitcast(x, tf.complex64), order)
    x = tf.raw_ops.PreventGradient(
        input=tf.reshape(tf.bitcast(moved, x.dtype), shape),
        message="an exported model has no gradient",
    )
    return tf.ensure_shape(x, [None, None, None, width])


def attention_probabilities(
    scores: tf.Tensor,
    bias: tf.Tensor,
    draws: tf.Tensor | None = None,
    *,
    rate: float = 0.0,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Applies softmax to scores + bias, then dropout.

    On a GPU every operation on the scores is a pass over memory. Compiled for
    one, the probabilities after dropout are one pass forward and one back, and
    those before it are computed only if they are used. A CPU adds the bias
    within the matrix product, and XLA's softmax takes up to 18 % longer there.

    Args:
      scores: float [B, N, Q, T], the scaled products of queries and keys.
      bias: float32, of a shape that broadcasts to the scores.
      draws: uint16 [B, N, Q, T], or None for no dropout; see `drop`.
      rate: share of the probabilities to drop.

    Returns:
      The probabilities before and after dropout, both of the scores' dtype.
    """
    biased = scores + tf.cast(bias, scores.dtype)
    probabilities = softmax(biased)
    if draws is None:
        return probabilities, probabilities
    if current() is Form.COMPILED and has_gpu():
        kept = dropped_softmax(scores, bias, draws, rate=rate)
    elif current() is Form.COMPILED and scores.dtype == tf.bfloat16:
        kept = _bfloat16_dropped_softmax(biased, draws, rate=rate)
    else:
        kept = drop(probabilities, draws, rate=rate)
    return probabilities, kept


@fused
def dropped_softmax(scores, bias, draws, *, rate):
    """Applies `softmax` to scores + bias, then `drop`; bias has no gradient."""
    bias = tf.stop_gradient(tf.cast(bias, scores.dtype))
    return _drop(softmax(scores + bias), draws, rate=rate)


def _bfloat16_dropped_softmax(
    scores: tf.Tensor, draws: tf.Tensor, *, rate: float
) -> tf.Tensor:
    """Applies `softmax` to float [B, N, Q, T], then `drop`.

    Their gradient is one pass over memory, in float32.
    """

    @tf.custom_gradient
    def call(scores):
        probabilities = softmax(scores)

        def gradient(upstream):
            return _dropped_softmax_gradient(
                probabilities, draws, upstream, rate=rate
            )

        return drop(probabilities, draws, rate=rate), gradient

    return call(scores)


@_compiled
def _dropped_softmax_gradient(probabilities, draws, upstream, *, rate):
    p = tf.cast(probabilities, tf.float32)
    upstream = _drop(tf.cast(upstream, tf.float32), draws, rate=rate)
    total = tf.reduce_sum(upstream * p, axis=-1, keepdims=True)
    return tf.cast(p * (upstream - total), probabilities.dtype)


def softmax(scores: tf.Tensor) -> tf.Tensor:
    """Applies softmax over the last axis, in float32.

    oneDNN's kernel is in float32 inside: without casts, attention scores and
    probabilities in bfloat16 take 5.5 ms, not 9.4.
    """
    if current() is Form.KERNELS:
        return tf.nn.softmax(scores)
    return tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32)), scores.dtype)
