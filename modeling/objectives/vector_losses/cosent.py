"""CoSENT, a ranking loss: pairs with higher scores get higher cosines.

Only the order of the scores counts, as in Spearman's correlation.

Source: CoSENT (Su, kexue.fm/archives/8847); `CoSENTLoss` of
  sentence-transformers.
"""

import tensorflow as tf

from modeling.objectives.vector_losses.similarity import Vectors, cosines

_NEVER = -1e12  # its exp is 0


def loss(vectors: Vectors, targets: tf.Tensor, scale: float) -> tf.Tensor:
    """log(1 + sum of exp(scale (cos_i - cos_j)) where score_i < score_j)."""
    scaled = scale * cosines(*vectors)
    differences = scaled[:, tf.newaxis] - scaled[tf.newaxis]
    is_wrong = targets < tf.transpose(targets)
    terms = tf.reshape(tf.where(is_wrong, differences, _NEVER), [-1])
    return tf.reduce_logsumexp(tf.concat([[0.0], terms], axis=0))
