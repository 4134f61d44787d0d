"""Positive pairs with in-batch negatives: the texts of the other examples.

Source: Henderson et al., arXiv:1705.00652, section 4;
  `MultipleNegativesRankingLoss` of sentence-transformers.
"""

import tensorflow as tf

from modeling.objectives.vector_losses.similarity import Vectors, unit


def loss(vectors: Vectors, targets: None, scale: float) -> tf.Tensor:
    """Mean cross entropy: classifies each first text's own second text.

    The classes are the second texts and, if there are any, the third texts of
    all examples.
    """
    first, *others = map(unit, vectors)
    candidates = tf.concat(others, axis=0)
    logits = scale * tf.matmul(first, candidates, transpose_b=True)
    labels = tf.range(tf.shape(first)[0])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return tf.reduce_mean(losses)
