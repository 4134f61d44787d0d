"""Losses and metrics as sums, so that any split of a batch adds up.

A metric is a float32 [2]: (weighted sum, weight). Metrics of micro-batches,
replicas and steps are added; `mean` divides at the end.
"""

from collections.abc import Callable

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
    softmax, in one kernel on a CPU, and one search in it; and of its gradient,
    (probabilities - 1 at the label) * upstream, only the first part is that
    large: the 1 picks a row of the table, upstream scales rows of x.

    In bfloat16 logits are rounded, with their bias, and so are probabilities:
    a loss has an error of 2^-9 of its greatest logit, and 0.002.

    Args:
      x: float [M, H], in the compute dtype.
      table: float32 [C, H]; the logits are x @ table^T + bias.
      bias: float32 [C].
      labels: int32 [M], each in 0 .. C - 1.

    Returns:
      Float32 [2, M]: the losses, and 1.0 where the highest probability (of
      equal ones, as they are rounded, the first) is the label's, else 0.0;
      these have no gradient.
    """
    dtype = x.dtype
    # The least of float16 is 6e-8: too much for a word of thousands.
    narrow = tf.bfloat16 if dtype == tf.bfloat16 else tf.float32

    def chosen(values, columns):
        picked = tf.gather(values, columns, axis=1, batch_dims=1)
        return tf.cast(picked, tf.float32)

    with tf.name_scope("vocabulary_loss"):
        words = tf.cast(table, dtype)
        logits = tf.nn.bias_add(
            tf.matmul(x, words, transpose_b=True), tf.cast(bias, dtype)
        )
        probabilities = tf.nn.softmax(tf.cast(logits, narrow))
        searched = probabilities
        if not tf.config.list_logical_devices("GPU"):
            # Bits of floats from 0 up have the order of the floats, and a CPU
            # searches them in half the time; a GPU has no search in integers.
            searched = tf.bitcast(
                searched, tf.uint16 if narrow == tf.bfloat16 else tf.uint32
            )
        top = tf.argmax(searched, axis=1, output_type=tf.int32)
        # Not -log of the label's own probability, which may be 0.
        losses = (
            chosen(logits, top)
            - chosen(logits, labels)
            - tf.math.log(chosen(probabilities, top))
        )
        hits = tf.cast(tf.equal(top, labels), tf.float32)
        values = tf.stack([losses, hits])

    def gradient(upstream):
        with tf.name_scope("vocabulary_loss"):
            # Not upstream[0, :, tf.newaxis]: TensorFlow's rewriting of graphs
            # takes that for upstream[0].
            scale = upstream[0][:, tf.newaxis]
            return _vocabulary_gradient(x, words, probabilities, labels, scale)

    return values, gradient


def _vocabulary_gradient(x, words, probabilities, labels, scale):
    """Of x, of the table and of the bias; none of the labels."""
    dtype, narrow = x.dtype, probabilities.dtype
    num_rows = tf.shape(probabilities)[0]
    # What the label lacks to 1 is the sum of all others: 1 - its probability
    # is 0 in 16 bits once that is 0.998.
    others = tf.tensor_scatter_nd_update(
        probabilities,
        tf.stack([tf.range(num_rows), labels], axis=1),
        tf.zeros([num_rows], narrow),
    )
    rest = tf.reduce_sum(others, axis=1, keepdims=True)
    rest = scale * tf.cast(rest, tf.float32)
    if dtype == tf.float16:  # too small for it but for the scale of the loss
        others, left = tf.cast(others * scale, dtype), 1.0
        right, ones = x, tf.ones([1, num_rows], dtype)
    else:
        left, right = scale, tf.cast(scale * tf.cast(x, tf.float32), dtype)
        ones = tf.cast(tf.transpose(scale), dtype)
    picked = rest * tf.cast(tf.gather(words, labels), tf.float32)
    places = labels[:, tf.newaxis]
    of_x = left * _product(others, words) - picked
    of_table = tf.tensor_scatter_nd_sub(
        _product(others, right, transpose_a=True),
        places,
        rest * tf.cast(x, tf.float32),
    )
    of_bias = tf.tensor_scatter_nd_sub(
        _product(ones, others)[0], places, rest[:, 0]
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
