"""What trains the vectors of texts: a function for each loss, by its name.

A loss takes `vectors`, float32 [B, K] for each text of an example; `targets`,
the scores [B, 1], a teacher's vectors [B, K] or None; and `scale`, the factor
of the cosines. It returns a scalar, a mean over the batch. Every loss depends
on directions only, not on lengths.

Axes: B rows, K numbers of a vector.
"""

from collections.abc import Callable

import tensorflow as tf

from modeling import losses
from modeling.choices import VECTOR_LOSSES, require_one_of

_NEVER = -1e12  # its exp is 0


def get(name: str) -> Callable:
    """Finds a loss by one of `choices.VECTOR_LOSSES`."""
    require_one_of(VECTOR_LOSSES, "loss", name)
    return globals()[name]


def unit(vectors: tf.Tensor) -> tf.Tensor:
    """Divides vectors [B, K] by their lengths; a vector of zeros stays."""
    return tf.math.l2_normalize(vectors, axis=-1, epsilon=1e-24)


def cosines(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Computes the cosine of each row with the same row: [B] of [B, K] each."""
    return tf.reduce_sum(unit(first) * unit(second), axis=-1)


def cosent(vectors, targets, scale):
    """log(1 + sum of exp(scale (cos_i - cos_j)) where score_i < score_j).

    Scored pairs are ranked: a higher score shall have a higher cosine. Only the
    order of the scores counts, as in Spearman's correlation.

    Source: CoSENT (Su, kexue.fm/archives/8847); `CoSENTLoss` of
      sentence-transformers.
    """
    scaled = scale * cosines(*vectors)
    differences = scaled[:, tf.newaxis] - scaled[tf.newaxis]
    is_wrong = targets < tf.transpose(targets)
    terms = tf.reshape(tf.where(is_wrong, differences, _NEVER), [-1])
    return tf.reduce_logsumexp(tf.concat([[0.0], terms], axis=0))


def cosine(vectors, targets, scale):
    """Mean of (cosine - score)^2 of scored pairs; `scale` is not used.

    Source: Sentence-BERT (arXiv:1908.10084), regression objective.
    """
    del scale
    return tf.reduce_mean(tf.square(cosines(*vectors) - targets[:, 0]))


def negatives(vectors, targets, scale):
    """Mean cross entropy of each first text's own second text.

    It is chosen among the second, and if there are any the third texts, of all
    examples: the other examples' texts are an example's negatives.

    Source: Henderson et al., arXiv:1705.00652, section 4;
      `MultipleNegativesRankingLoss` of sentence-transformers.
    """
    del targets
    first, *others = map(unit, vectors)
    candidates = tf.concat(others, axis=0)
    logits = scale * tf.matmul(first, candidates, transpose_b=True)
    own = tf.range(tf.shape(first)[0])
    return tf.reduce_mean(losses.cross_entropy(logits, own))


def teacher(vectors, targets, scale):
    """Mean of 1 - cosine with a teacher's vectors; `scale` is not used.

    The cosine does not depend on the lengths of the teacher's vectors, so that
    one learning rate suits all teachers; for vectors of length 1 it is the
    squared error. No projection is learned: the vectors themselves are
    searched, and a projection that is dropped afterwards would leave their own
    angles untrained. Where the sizes differ, the teacher's vectors are rotated
    to their principal axes and cut, which keeps their angles as well as any
    smaller size can.
    """
    del scale
    (own,) = vectors
    return 1.0 - tf.reduce_mean(cosines(own, targets))
