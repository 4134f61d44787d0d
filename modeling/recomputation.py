"""Gradient checkpointing: memory for time."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf


def recomputed(
    function: Callable[[tf.Tensor, tf.Tensor | None], tf.Tensor],
    x: tf.Tensor,
    dropout_seed: tf.Tensor | None,
    variables: Sequence[keras.Variable],
) -> tf.Tensor:
    """Applies a function whose inside is computed again for the gradient.

    Only x is kept until then. The gradient is the same one: the seed gives
    the same dropout twice.

    Args:
      function: from x and the seed to a float tensor.
      x: float tensor.
      dropout_seed: int32 [2], or None for no dropout.
      variables: what the function reads and its gradient is wanted for; read
        here outside of autocasting, by the function under it.

    Returns:
      What the function returns.

    Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost",
      arXiv:1604.06174.
    """

    def apply(x, dropout_seed, values):
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(mapping):
            return function(x, dropout_seed)

    @tf.custom_gradient
    def call(x, *values):
        def gradient(upstream):
            # Without both of these a compiler finds the same operations
            # twice, makes them once and keeps the results: Grappler looks at
            # control dependencies, XLA at data alone.
            zero = _zero_after(upstream)
            seed = dropout_seed
            if seed is not None:
                seed += tf.cast(zero, seed.dtype)
            with (
                tf.control_dependencies([upstream]),
                tf.GradientTape(watch_accessed_variables=False) as tape,
            ):
                again = [x + tf.cast(zero, x.dtype), *map(tf.identity, values)]
                tape.watch(again)
                y = apply(again[0], seed, again[1:])
            return tape.gradient(
                y, again, upstream, unconnected_gradients="zero"
            )

        return apply(x, dropout_seed, values), gradient

    return call(x, *(tf.convert_to_tensor(v.value) for v in variables))


def _zero_after(x: tf.Tensor) -> tf.Tensor:
    """0 that no compiler can know before x, as only nan differs from itself."""
    first = tf.cast(tf.reshape(x, [-1])[0], tf.float32)
    return tf.where(first == first, 0.0, 1.0)
