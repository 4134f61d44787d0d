"""Dense layer, layer norm and dropout, which all other layers use.

Axis letters of this folder: B batch, S sequence, P predictions per sequence,
N heads, D width of a head, H hidden, V vocabulary; M = B * S rows when
batch and sequence are flattened into one matrix.

Layers have the names of the original's variable scopes, so that a variable's
path (`bert/encoder/layer_0/attention/self/query/kernel`) is its name in a
checkpoint. Weights are float32; with the policy `mixed_bfloat16` Keras casts
them where they are used.
"""

import keras
import tensorflow as tf

from modeling.config import activation_name
from modeling.kernels import block as kernels


def initializer(stddev: float) -> keras.initializers.Initializer:
    """Returns the original's initializer, cut at two standard deviations."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


def activate(x: tf.Tensor, hidden_act: str) -> tf.Tensor:
    """Applies an activation function.

    Args:
      x: float tensor of any shape.
      hidden_act: one of `config.ACTIVATIONS`, in any case; None is linear.

    Returns:
      Tensor of the same shape.

    Source: `modeling.gelu`, `modeling.get_activation`.
    """
    return kernels.activate(x, name=activation_name(hidden_act))


def dropout(x: tf.Tensor, rate: float, seed: tf.Tensor | None) -> tf.Tensor:
    """Drops random elements and scales the others by 1 / (1 - rate).

    The same seed drops the same elements, so that a resumed run repeats an
    uninterrupted one exactly.

    Args:
      x: float tensor of any shape.
      rate: share of elements set to 0.
      seed: int32 [2], or None to drop nothing (evaluation).

    Returns:
      Tensor of the same shape.
    """
    if seed is None or rate == 0.0:
        return x
    draws = kernels.dropout_draws(tf.shape(x), seed)
    return kernels.drop(x, draws, rate=rate)


def draw_seed() -> tf.Tensor:
    """Draws a seed, int32 [2], from TensorFlow's own generator.

    `keras.utils.set_random_seed` makes it repeatable. A
    `keras.random.SeedGenerator` has a variable, which would be in checkpoints
    and exported models. It also draws its first seed from the generator of the
    initial weights, and so would change them.
    """
    return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)


def split_seed(seed: tf.Tensor | None, num: int) -> list[tf.Tensor | None]:
    """Derives `num` independent seeds, int32 [2] each; None from None."""
    if seed is None:
        return [None] * num
    # By default, XLA would use another algorithm, which gives other seeds.
    return tf.unstack(tf.random.split(seed, num, alg="philox"))


class Dense(keras.layers.Layer):
    """x @ kernel + bias on a matrix, then an activation.

    Inputs are matrices, because a CPU fuses matrix product, bias and activation
    into one kernel only for them.

    Args:
      units: width of the output.
      stddev: standard deviation of the kernel's initializer; the bias starts
        at 0.
      activation: see `activate`.
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
        biased = kernels.add_bias(product, tf.convert_to_tensor(self.bias))
        return activate(biased, self.activation)


class LayerNorm(keras.layers.Layer):
    """Layer normalization over the last axis, in float32.

    In 16 bits, the epsilon of 1e-12 would have no effect, so the arithmetic and
    the parameters are float32 under every policy. Only `Form.KERNELS` rounds
    the parameters to the dtype of oneDNN's kernel.

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
        """Normalizes residual + dropout(x), or dropout(x) alone.

        Args:
          x: float [M, H] or [B, S, H].
          residual: the same shape; None = 0.
          dropout_prob: share of the elements of x to drop.
          dropout_seed: int32 [2], or None for no dropout.

        Returns:
          The same shape and dtype.
        """
        return kernels.layer_norm(
            x,
            tf.convert_to_tensor(self.gamma),
            tf.convert_to_tensor(self.beta),
            epsilon=self.EPSILON,
            residual=residual,
            rate=dropout_prob,
            seed=dropout_seed,
        )
