"""Recomputes activations in the backward pass, for a block or batch parts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from modeling.kernels.seeds import are_on_host, fold_in


def recomputed(
    function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    x: tf.Tensor,
    dropout_seed: tf.Tensor,
    variables: Sequence[keras.Variable],
) -> tf.Tensor:
    """Applies a function, and computes it again for the gradient.

    Only x is stored in between. The gradient does not change, because the seed,
    int32 [2], gives the same dropout both times.

    Args:
      function: maps x and the seed to a float tensor, which is returned.
      x: float tensor.
      dropout_seed: int32 [2].
      variables: the function's variables. They are read here, where Keras does
        not cast them. Only trainable ones get a gradient.

    Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost",
      arXiv:1604.06174.
    """
    apply, values = _with_values(function, variables)

    @tf.custom_gradient
    def call(x, *values):
        def gradient(upstream):
            # Compilers merge equal operations and store their results, unless
            # the second ones depend on the gradient: by control dependencies
            # for Grappler, by data for XLA. Seeds on the host are
            # not compiled, and the host would wait for the zero.
            zero = _zero_after(upstream)
            seed = dropout_seed
            if not are_on_host():
                seed += tf.cast(zero, seed.dtype)
            with (
                tf.control_dependencies([upstream]),
                tf.GradientTape(watch_accessed_variables=False) as tape,
            ):
                again = [x + tf.cast(zero, x.dtype), *map(tf.identity, values)]
                tape.watch(again)
                y = apply(again[1:], again[0], seed)
            return tape.gradient(
                y, again, upstream, unconnected_gradients="zero"
            )

        return apply(values, x, dropout_seed), gradient

    return call(x, *values)


def _zero_after(x: tf.Tensor) -> tf.Tensor:
    """Returns 0 that depends on x; no compiler can fold it, because of nan."""
    first = tf.cast(tf.reshape(x, [-1])[:1], tf.float32)  # none of no rows
    return tf.reduce_sum(tf.where(first == first, 0.0, 1.0))


def computed_in_parts(
    function: Callable[[Mapping[str, tf.Tensor], tf.Tensor | None], tf.Tensor],
    rows: Mapping[str, tf.Tensor],
    dropout_seed: tf.Tensor | None,
    num_parts: int,
    variables: Sequence[keras.Variable],
) -> tf.Tensor:
    """Applies a function to parts of a batch, and again for the gradient.

    Only the results and the activations of one part are in memory, while what
    follows sees the results of the whole batch.

    Args:
      function: maps a part of the rows and a seed to float32 [rows, H].
      rows: name -> integer tensor [B, ...].
      dropout_seed: int32 [2], from which each part gets its own; None = no
        dropout.
      num_parts: a divisor of B.
      variables: the function's variables; trainable ones get a gradient.

    Source: Gao et al., "Scaling Deep Contrastive Learning Batch Size under
      Memory Limited Setup", arXiv:2101.06983.
    """
    parts = {name: divided(x, num_parts) for name, x in rows.items()}

    def part(i):
        seed = None if dropout_seed is None else fold_in(dropout_seed, i)
        return function({name: x[i] for name, x in parts.items()}, seed)

    apply, values = _with_values(part, variables)

    @tf.custom_gradient
    def call(*values):
        def gradient(upstream):
            size = tf.shape(upstream)[0] // num_parts

            def add(i, sums):
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    again = [tf.identity(value) for value in values]
                    tape.watch(again)
                    y = apply(again, i)
                of_part = upstream[i * size : (i + 1) * size]
                found = tape.gradient(
                    y, again, of_part, unconnected_gradients="zero"
                )
                pairs = zip(sums, map(tf.convert_to_tensor, found), strict=True)
                return [a + b for a, b in pairs]

            return one_by_one(add, num_parts, list(map(tf.zeros_like, values)))

        def fill(i, found):
            return found.write(i, apply(values, i))

        found = tf.TensorArray(tf.float32, num_parts, element_shape=None)
        return one_by_one(fill, num_parts, found).concat(), gradient

    return call(*values)


def _with_values(function: Callable, variables: Sequence) -> tuple:
    """Returns the function of its trainable variables' values, and these."""
    trained = [v for v in variables if v.trainable]
    frozen = [v for v in variables if not v.trainable]
    constants = [(v, tf.convert_to_tensor(v.value)) for v in frozen]

    def apply(values, *arguments):
        mapping = [*constants, *zip(trained, values, strict=True)]
        with keras.StatelessScope(mapping):
            return function(*arguments)

    return apply, [tf.convert_to_tensor(v.value) for v in trained]


def divided(x: tf.Tensor, count: int) -> tf.Tensor:
    """Divides rows [B, ...] to [count, B / count, ...]."""
    # Not by x.shape: the length of trimmed batches varies.
    return tf.reshape(x, tf.concat([[count, -1], tf.shape(x)[1:]], axis=0))


def one_by_one(body: Callable, count: int, state: Any, first: int = 0) -> Any:
    """Runs a loop: state = body(i, state) for i in `first` to count - 1.

    Only one iteration's intermediate values are in memory at a time.
    """
    return tf.while_loop(
        lambda i, _: i < count,
        lambda i, state: (i + 1, body(i, state)),
        (tf.constant(first), state),
        parallel_iterations=1,
    )[1]
