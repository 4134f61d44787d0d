"""Cosine regression: the cosine of a pair is trained to equal its score.

Source: Sentence-BERT (arXiv:1908.10084), regression objective.
"""

import tensorflow as tf

from modeling.objectives.vector_losses.similarity import Vectors, cosines


def loss(vectors: Vectors, targets: tf.Tensor, scale: float) -> tf.Tensor:
    """Mean of (cosine - score)^2; `scale` is not used."""
    return tf.reduce_mean(tf.square(cosines(*vectors) - targets[:, 0]))
