"""Cosines and lengths of vectors.

Axes: B rows, K numbers of a vector.
"""

from collections.abc import Sequence

import tensorflow as tf

# The texts of an example by their number, [B, K] each.
Vectors = Sequence[tf.Tensor]


def unit(vectors: tf.Tensor) -> tf.Tensor:
    """Divides vectors [B, K] by their lengths; a vector of zeros stays."""
    return tf.math.l2_normalize(vectors, axis=-1, epsilon=1e-24)


def cosines(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Computes the cosine of each row with the same row: [B] of [B, K] each."""
    return tf.reduce_sum(unit(first) * unit(second), axis=-1)
