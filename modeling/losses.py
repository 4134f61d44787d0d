"""Losses and metrics as sums, so that any split of a batch adds up.

A metric is a float32 [2]: (weighted sum, weight). Metrics of micro-batches,
replicas and steps are added; `mean` divides at the end.
"""

from typing import NamedTuple

import tensorflow as tf


class Distillation(NamedTuple):
    """How a model learns from a teacher's scores (arXiv:1503.02531).

    Attributes:
      weight: share of the teacher's scores in the loss; the labels have the
        rest.
      temperature: T, which divides the logits of both models.
    """

    weight: float
    temperature: float


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """-log softmax(logits)[label], float32 [M].

    The logits are float [M, C], the labels int32 [M], each in 0 .. C - 1.
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=tf.cast(logits, tf.float32)
    )


def squared_error(scores: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """(score - target)^2, float32 [M], from scores and targets [M, 1]."""
    return tf.square(tf.cast(scores, tf.float32) - targets)[:, 0]


def absolute_error(scores: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """|score - target|, shapes as for `squared_error`."""
    return tf.abs(tf.cast(scores, tf.float32) - targets)[:, 0]


def binary_cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """-log sigmoid(+-logit), averaged over each example's labels: float32 [M].

    The logits are float [M, L], the labels int32 [M, L]; 1 = has the label.
    """
    losses = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.cast(labels, tf.float32), logits=tf.cast(logits, tf.float32)
    )
    # The gradient of `reduce_mean` would make the host wait for its GPU.
    total = tf.reduce_sum(losses, axis=-1, keepdims=True)[:, 0]
    return total / losses.shape[-1]


def binary_hits(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Share of labels predicted right (logit above 0 = has it): float32 [M]."""
    is_right = tf.equal(logits > 0, tf.cast(labels, tf.bool))
    return tf.reduce_mean(tf.cast(is_right, tf.float32), axis=-1)


def divergence(
    logits: tf.Tensor, teacher: tf.Tensor, temperature: float
) -> tf.Tensor:
    """T^2 KL(softmax(teacher / T), softmax(logits / T)) of [..., C]: [...].

    The factor keeps the size of the gradients at any temperature.
    """
    ours, theirs = (
        tf.nn.log_softmax(tf.cast(x, tf.float32) / temperature)
        for x in (logits, teacher)
    )
    terms = tf.exp(theirs) * (theirs - ours)
    return temperature**2 * tf.reduce_sum(terms, axis=-1)


def binary_divergence(
    logits: tf.Tensor, teacher: tf.Tensor, temperature: float
) -> tf.Tensor:
    """`divergence` of having each label, averaged: [M, L] to float32 [M]."""
    # sigmoid(x) is the softmax of x and 0.
    pairs = (tf.stack([x, tf.zeros_like(x)], -1) for x in (logits, teacher))
    return tf.reduce_mean(divergence(*pairs, temperature), axis=-1)


def weighted(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Computes a metric from values [M] and weights [M]."""
    values = tf.cast(values, tf.float32)
    return tf.stack([tf.reduce_sum(values * weights), tf.reduce_sum(weights)])


def metrics(
    name: str, item_losses: tf.Tensor, hits: tf.Tensor, weights: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Returns the metrics NAME_accuracy and NAME_loss, from values [M] each."""
    return {
        f"{name}_accuracy": weighted(hits, weights),
        f"{name}_loss": weighted(item_losses, weights),
    }


def hits(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """1.0 where the label has the highest score, else 0.0: float32 [M]."""
    best = tf.argmax(logits, axis=-1)
    # A GPU would compare int32 on its host.
    return tf.cast(tf.equal(best, tf.cast(labels, best.dtype)), tf.float32)


def mean(metric) -> float:
    """The value of a metric, float [2]: weighted sum / weight.

    It is nan when nothing was counted.
    """
    total, weight = (float(x) for x in metric)
    return total / weight if weight else float("nan")
