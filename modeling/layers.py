"""The three small layers that everything is built of, and dropout.

Axis letters of this folder: B batch, S sequence, P predictions per sequence,
N heads, D width of a head, H hidden, V vocabulary; M = B * S rows when
batch and sequence are flattened into one matrix.

Layers are named as the original's variable scopes, so that a variable's path
(`bert/encoder/layer_0/attention/self/query/kernel`) is its name in a
checkpoint. Weights are float32; with the policy `mixed_bfloat16` Keras casts
them for the arithmetic.
"""

import keras
import tensorflow as tf

from modeling.config import activation_name
from modeling.kernels import Form, current, fused

_NUM_DRAWS = 1 << 16


def initializer(stddev: float) -> keras.initializers.Initializer:
    """Truncated normal, cut at two standard deviations (as the original)."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


def activate(x: tf.Tensor, hidden_act: str) -> tf.Tensor:
    """Applies an activation by its name in the configuration.

    Args:
      x: float tensor of any shape.
      hidden_act: one of `config.ACTIVATIONS`; None is linear.

    Returns:
      Tensor of the same shape.

    Source: `modeling.gelu`, `modeling.get_activation`.
    """
    # tf.nn.gelu right after bias_add is what the CPU fuses into the matrix
    # product; the original's spelled-out formula (9 operations) is not.
    name = activation_name(hidden_act)
    if name == "gelu":
        return tf.nn.gelu(x, approximate=True)
    if name == "gelu_exact":
        return tf.nn.gelu(x, approximate=False)
    if name == "relu":
        return tf.nn.relu(x)
    if name == "tanh":
        return tf.tanh(x)
    return x


def dropout(x: tf.Tensor, rate: float, seed: tf.Tensor | None) -> tf.Tensor:
    """Drops elements at random, scaling the others by 1 / (1 - rate).

    Stateless: the same seed drops the same elements, so that a resumed run
    repeats an uninterrupted one exactly.

    Args:
      x: float tensor of any shape.
      rate: share of elements set to 0.
      seed: int32 [2], or None to drop nothing (evaluation).

    Returns:
      Tensor of the same shape.
    """
    if seed is None or rate == 0.0:
        return x
    return _fused_drop(x, _dropout_draws(tf.shape(x), seed), rate=rate)


def _dropout_draws(shape, seed):
    """Random uint16 of a shape."""
    # 16 random bits an element are enough, and half the work of 32: a rate of
    # 0.1 becomes 6554 / 65536 = 0.100006.
    size = tf.reduce_prod(shape)
    pairs = tf.random.stateless_uniform(
        [(size + 1) // 2],
        seed,
        minval=None,
        maxval=None,
        dtype=tf.uint32,
        alg="philox",
    )
    draws = tf.reshape(tf.bitcast(pairs, tf.uint16), [-1])[:size]
    return tf.reshape(draws, shape)


def _drop(x, draws, *, rate):
    dropped = round(rate * _NUM_DRAWS)
    kept = tf.cast(draws >= tf.constant(dropped, tf.uint16), x.dtype)
    scale = _NUM_DRAWS / (_NUM_DRAWS - dropped)
    return x * (kept * tf.cast(scale, x.dtype))


_fused_drop = fused(_drop)


def draw_seed() -> tf.Tensor:
    """Draws a seed, int32 [2], from TensorFlow's own generator.

    `keras.utils.set_random_seed` makes it repeatable. A
    `keras.random.SeedGenerator` would hold a variable, which would appear in
    checkpoints and exported models; it also draws its first seed where the
    initial weights draw theirs, and so would change them.
    """
    return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)


def split_seed(seed: tf.Tensor | None, num: int) -> list[tf.Tensor | None]:
    """Makes `num` independent seeds (int32 [2] each) of one; None stays."""
    if seed is None:
        return [None] * num
    # Named, because XLA would pick another algorithm, and other seeds.
    return tf.unstack(tf.random.split(seed, num, alg="philox"))


def add_bias(x: tf.Tensor, bias: keras.Variable) -> tf.Tensor:
    """Adds a bias [units] to each row of x [M, units].

    Of bfloat16, TensorFlow's own gradient of it is summed in bfloat16 on a
    CPU, and 4,096 rows lose up to a third; this one is summed in float32.
    """
    bias = tf.convert_to_tensor(bias)
    # TensorFlow keeps custom gradients and their graphs: not without need.
    may_train = current() in (Form.PLAIN, Form.COMPILED)
    if x.dtype == tf.bfloat16 and may_train:
        return _add_bias(x, bias)
    return tf.nn.bias_add(x, bias)


@tf.custom_gradient
def _add_bias(x, bias):
    def gradient(upstream):
        with tf.name_scope("bias_gradient"):
            ones = tf.ones([1, tf.shape(upstream)[0]], upstream.dtype)
            return upstream, tf.matmul(ones, upstream)[0]

    return tf.nn.bias_add(x, bias), gradient


class Dense(keras.layers.Layer):
    """x @ kernel + bias on a matrix, then an activation.

    Rank 2 on purpose: only so do matrix product, bias and activation become
    one kernel on a CPU.

    Args:
      units: width of the output.
      stddev: of the kernel's initial values; the bias starts at 0.
      activation: name of an activation.
    """

    def __init__(self, units, *, stddev, activation="linear", **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.stddev = stddev
        self.activation = activation

    def build(self, input_shape):
        """Creates kernel [in, units] and bias [units]."""
        self.kernel = self.add_weight(
            name="kernel",
            shape=(input_shape[-1], self.units),
            initializer=initializer(self.stddev),
        )
        self.bias = self.add_weight(
            name="bias", shape=(self.units,), initializer="zeros"
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps float [M, in] to [M, units]."""
        product = tf.matmul(x, tf.convert_to_tensor(self.kernel))
        biased = add_bias(product, self.bias)
        if self.activation == "linear" or current() is not Form.COMPILED:
            return activate(biased, self.activation)
        return _fused_activate(biased, hidden_act=self.activation)


@fused
def _fused_activate(x, *, hidden_act):
    # XLA would round to 16 bits after every operation.
    return tf.cast(activate(tf.cast(x, tf.float32), hidden_act), x.dtype)


class LayerNorm(keras.layers.Layer):
    """Layer normalisation over the last axis, always in float32.

    The epsilon 1e-12 vanishes in 16 bits, so the arithmetic and both
    parameters stay float32 under every policy; evaluation on a CPU rounds the
    parameters to the dtype of its kernel, see `kernels.Form`.

    Source: `modeling.layer_norm` (tf.contrib.layers.layer_norm).
    """

    EPSILON = 1e-12

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)

    def build(self, input_shape):
        """Creates gamma [H] = 1 and beta [H] = 0."""
        shape = (input_shape[-1],)
        self.gamma = self.add_weight(
            name="gamma", shape=shape, initializer="ones"
        )
        self.beta = self.add_weight(
            name="beta", shape=shape, initializer="zeros"
        )

    def call(
        self,
        x: tf.Tensor,
        residual: tf.Tensor | None = None,
        dropout_prob: float = 0.0,
        dropout_seed: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Normalises residual + dropout(x), or x alone.

        Args:
          x: float [M, H] or [B, S, H].
          residual: the same shape; None = 0.
          dropout_prob: share of the elements of x that is dropped.
          dropout_seed: int32 [2], or None for no dropout.

        Returns:
          The same shape and dtype.
        """
        gamma = tf.convert_to_tensor(self.gamma)
        beta = tf.convert_to_tensor(self.beta)
        if residual is None:
            return _norm(x, gamma, beta)
        if dropout_seed is None or dropout_prob == 0.0:
            return _add_and_norm(x, residual, gamma, beta)
        draws = _dropout_draws(tf.shape(x), dropout_seed)
        return _drop_add_and_norm(
            x, draws, residual, gamma, beta, rate=dropout_prob
        )


def _normalise(x, gamma, beta):
    """In float32, back to the dtype of x."""
    # If the shape is known, the kernel's form is simplified, and then missed.
    if current() is Form.KERNELS and None in x.shape.as_list():
        normed = _normed_rows(tf.reshape(x, [-1, x.shape[-1]]))
        normed = normed * tf.cast(gamma, x.dtype) + tf.cast(beta, x.dtype)
        return tf.reshape(normed, tf.shape(x))
    rows = tf.cast(x, tf.float32)
    centred = rows - tf.reduce_mean(rows, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    normed = centred * tf.math.rsqrt(variance + LayerNorm.EPSILON)
    return tf.cast(normed * gamma + beta, x.dtype)


def _normed_rows(x):
    """Brings each row of x [M, H] to mean 0 and variance 1, in float32 inside.

    Written as a batch normalisation of channels with H values each, and with
    gamma and beta after it, it is what oneDNN's rewriting of graphs takes for
    a layer norm: one kernel in place of nine.
    """
    num_rows = tf.shape(x)[0]
    normed = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(x, [1, num_rows, x.shape[-1], 1]),
        scale=tf.fill([num_rows], 1.0),
        offset=tf.fill([num_rows], 0.0),
        mean=tf.constant([]),
        variance=tf.constant([]),
        epsilon=LayerNorm.EPSILON,
        data_format="NCHW",
        is_training=True,
    )
    return tf.reshape(normed[0], tf.shape(x))


_norm = fused(_normalise)


@fused
def _add_and_norm(x, residual, gamma, beta):
    return _normalise(residual + x, gamma, beta)


@fused
def _drop_add_and_norm(x, draws, residual, gamma, beta, *, rate):
    return _normalise(residual + _drop(x, draws, rate=rate), gamma, beta)
