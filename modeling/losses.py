"""Losses and metrics as sums, so that any split of a batch adds up.

A metric is a float32 [2]: (weighted sum, weight). Metrics of micro-batches,
replicas and steps are added; `mean` divides at the end.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """-log softmax(logits)[label], in float32.

    Args:
      logits: float [M, C].
      labels: int32 [M], each in 0 .. C - 1.

    Returns:
      Float32 [M].
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=tf.cast(logits, tf.float32)
    )


@tf.custom_gradient
def vocabulary_loss(
    x: tf.Tensor, table: tf.Tensor, bias: tf.Tensor, labels: tf.Tensor
) -> tuple[tf.Tensor, Callable]:
    """`cross_entropy` and `hits` over so many classes that each pass counts.

    Their own operations pass over the logits ten times and more. This is one
    softmax over all classes but the label, in one kernel on a CPU, and one
    search in it. With o the log of the sum of exp(logit) over those others,
    and `lead` the label's logit less o, the loss is log(1 + exp(-lead)). Its
    derivative, sigmoid(-lead), is the probability of all others together:
    exact in 16 bits, too, where 1 - 0.998 is 0. The gradient of the logits is
    (softmax - 1 at the label) * sigmoid(-lead) * upstream; only the softmax is
    large, so the 1 picks a row of the table, and the factors scale rows of x.

    In 16 bits the logits are rounded, with their bias.

    Args:
      x: float [M, H], in the compute dtype.
      table: float32 [C, H]; the logits are x @ table^T + bias.
      bias: float32 [C].
      labels: int32 [M], each in 0 .. C - 1.

    Returns:
      Float32 [2, M]: the losses, and 1.0 where no other class is likelier than
      the label (of equal ones the first), else 0.0; these have no gradient.
    """
    dtype = x.dtype
    # The least of float16 is 6e-8: too much for a word of thousands.
    narrow = tf.bfloat16 if dtype == tf.bfloat16 else tf.float32
    num_rows = tf.shape(x)[0]

    def chosen(values, columns):
        picked = tf.gather(values, columns, axis=1, batch_dims=1)
        return tf.cast(picked, tf.float32)

    with tf.name_scope("vocabulary_loss"):
        words = tf.cast(table, dtype)
        logits = tf.nn.bias_add(
            tf.matmul(x, words, transpose_b=True), tf.cast(bias, dtype)
        )
        own = chosen(logits, labels)
        logits = tf.tensor_scatter_nd_update(
            logits,
            tf.stack([tf.range(num_rows), labels], axis=1),
            tf.fill([num_rows], tf.constant(-np.inf, dtype)),
        )
        others = tf.nn.softmax(tf.cast(logits, narrow))
        searched = others
        if not tf.config.list_logical_devices("GPU"):
            # Bits of floats from 0 up have the order of the floats, and a CPU
            # searches them in half the time; a GPU has no search in integers.
            searched = tf.bitcast(
                others, tf.uint16 if narrow == tf.bfloat16 else tf.uint32
            )
        top = tf.argmax(searched, axis=1, output_type=tf.int32)
        highest = chosen(logits, top)
        lead = own - highest + tf.math.log(chosen(others, top))
        is_hit = (own > highest) | (tf.equal(own, highest) & (labels < top))
        values = tf.stack([tf.nn.softplus(-lead), tf.cast(is_hit, tf.float32)])

    def gradient(upstream):
        with tf.name_scope("vocabulary_gradient"):
            # Not upstream[0, :, tf.newaxis]: TensorFlow's rewriting of graphs
            # takes that for upstream[0].
            scale = (upstream[0] * tf.sigmoid(-lead))[:, tf.newaxis]
            return _vocabulary_gradient(x, words, others, labels, scale)

    return values, gradient


def _vocabulary_gradient(x, words, others, labels, scale):
    """Of x, of the table and of the bias; none of the labels."""
    dtype = x.dtype
    rows = scale * tf.cast(x, tf.float32)
    if dtype == tf.float16:  # too small for it but for the scale of the loss
        others, left = tf.cast(others * scale, dtype), 1.0
        right, ones = x, tf.ones([1, tf.shape(x)[0]], dtype)
    else:
        left, right = scale, tf.cast(rows, dtype)
        ones = tf.cast(tf.transpose(scale), dtype)
    places = labels[:, tf.newaxis]
    picked = scale * tf.cast(tf.gather(words, labels), tf.float32)
    of_x = left * _product(others, words) - picked
    of_table = tf.tensor_scatter_nd_sub(
        _product(others, right, transpose_a=True), places, rows
    )
    of_bias = tf.tensor_scatter_nd_sub(
        _product(ones, others)[0], places, scale[:, 0]
    )
    return tf.cast(of_x, dtype), of_table, of_bias, None


def _product(*sides, **options):
    """In float32, whatever the sides are."""
    return tf.cast(tf.matmul(*sides, **options), tf.float32)


def squared_error(scores: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """(score - target)^2.

    Args:
      scores: float [M, 1].
      targets: float32 [M, 1].

    Returns:
      Float32 [M].
    """
    return tf.square(tf.cast(scores, tf.float32) - targets)[:, 0]


def absolute_error(scores: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """|score - target|, shapes as for `squared_error`."""
    return tf.abs(tf.cast(scores, tf.float32) - targets)[:, 0]


def binary_cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """-log sigmoid(+-logit), averaged over the labels of each example.

    Args:
      logits: float [M, L].
      labels: int32 [M, L]; 1 = the example has the label.

    Returns:
      Float32 [M].
    """
    return tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(labels, tf.float32),
            logits=tf.cast(logits, tf.float32),
        ),
        axis=-1,
    )


def binary_hits(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Share of the labels told right (above 0 = has it): float32 [M]."""
    told = tf.equal(logits > 0, tf.cast(labels, tf.bool))
    return tf.reduce_mean(tf.cast(told, tf.float32), axis=-1)


def weighted(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Makes a metric of values [M] and weights [M]."""
    values = tf.cast(values, tf.float32)
    return tf.stack([tf.reduce_sum(values * weights), tf.reduce_sum(weights)])


def hits(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """1.0 where the highest score is the label's, else 0.0: float32 [M]."""
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return tf.cast(tf.equal(best, labels), tf.float32)


def mean(metric) -> float:
    """The value of a metric; nan when nothing was counted.

    Args:
      metric: float [2], (weighted sum, weight).
    """
    total, weight = (float(x) for x in metric)
    return total / weight if weight else float("nan")
