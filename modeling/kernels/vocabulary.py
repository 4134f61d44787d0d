"""Scores and losses over a vocabulary.

Axis letters: see `layers`; C classes; N parts of R rows.
"""

import numpy as np
import tensorflow as tf

from modeling.kernels.block import Form, add_bias, current
from modeling.kernels.recomputation import one_by_one
from modeling.kernels.seeds import has_gpu, on_tpu

# Most logits of a part: 128 MB in float32.
LOGITS_AT_ONCE = 1 << 25


def vocabulary_logits(
    x: tf.Tensor, table: tf.Tensor, bias: tf.Tensor
) -> tf.Tensor:
    """Scores every class: x @ table^T + bias, [M, C] in the compute dtype.

    `x` is [M, H] in that dtype; the table [C, H] and the bias [C] are float32.
    """
    products = tf.matmul(x, tf.cast(table, x.dtype), transpose_b=True)
    return add_bias(products, tf.cast(bias, x.dtype))


def vocabulary_loss(
    x: tf.Tensor, table: tf.Tensor, bias: tf.Tensor, labels: tf.Tensor
) -> tf.Tensor:
    """Computes `losses.cross_entropy` and `losses.hits` of `vocabulary_logits`.

    A step of 4 x 256 takes 324 ms instead of 344 (in bfloat16 242, not 254),
    because there are few passes over the logits: one softmax over all classes
    but the label, which is one kernel on a CPU, and one search in it.

    With o the log of the sum of exp(logit) over those other classes, and `lead`
    the label's logit minus o, the loss is log(1 + exp(-lead)). Its derivative,
    sigmoid(-lead), is the probability of all other classes together. It is
    exact in 16 bits too, where 1 - 0.998 is 0. The gradient of the logits is
    (softmax - 1 at the label) * sigmoid(-lead) * upstream. Only the softmax is
    large: the 1 selects a row of the table, and the factors scale rows of x.

    Args:
      x: float [M, H], in the compute dtype. In 16 bits the logits are rounded.
      table: float32 [C, H].
      bias: float32 [C].
      labels: int32 [M], each in 0 .. C - 1.

    Returns:
      Float32 [2, M]: the losses; and 1.0 where no other class has a higher
      score than the label (of equal scores the first class is the highest),
      else 0.0. The second row has no gradient.
    """
    if current() is not Form.PLAIN:
        return _vocabulary_loss(x, table, bias, labels)
    logits = tf.cast(vocabulary_logits(x, table, bias), tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    best = tf.argmax(logits, axis=1, output_type=tf.int32)
    return tf.stack([losses, tf.cast(tf.equal(best, labels), tf.float32)])


def vocabulary_loss_in_parts(
    x: tf.Tensor, table: tf.Tensor, bias: tf.Tensor, labels: tf.Tensor
) -> tf.Tensor:
    """Computes `vocabulary_loss` in parts of the rows, one after the other.

    The memory for logits does not grow with the number of rows. With more than
    one part the gradient computes the logits again, which makes the products
    with the table a third more. A layer may have cast the table to the compute
    dtype. A part has `LOGITS_AT_ONCE` logits at most, but at least one row.
    """
    num_rows = x.shape[0]
    most_rows = max(1, LOGITS_AT_ONCE // table.shape[0])
    if num_rows is not None and num_rows <= most_rows:
        return vocabulary_loss(x, table, bias, labels)
    if num_rows is None:
        num_rows = tf.shape(x)[0]
    num_parts = -(-num_rows // most_rows)
    # Parts of one size, filled up with rows whose losses are not read.
    height = -(-num_rows // num_parts)
    filler = num_parts * height - num_rows
    x = tf.pad(x, [[0, filler], [0, 0]])
    x = tf.reshape(x, [num_parts, height, x.shape[1]])
    labels = tf.pad(labels, [[0, filler]])
    labels = tf.reshape(labels, [num_parts, height])
    found = _loss_of_parts(x, table, bias, labels)
    found = tf.reshape(tf.transpose(found, [1, 0, 2]), [2, -1])
    return found[:, :num_rows]


@tf.custom_gradient
def _loss_of_parts(x, table, bias, labels):
    """Returns `vocabulary_loss` of x [N, R, H], labels [N, R]: [N, 2, R]."""

    def loss(part):
        return vocabulary_loss(part[0], table, bias, part[1])

    def gradient(upstream):
        def add(i, state):
            of_x, *sums = state
            part = [x[i], table, bias]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(part)
                values = vocabulary_loss(*part, labels[i])
            of_part, *found = tape.gradient(values, part, upstream[i])
            # In 16 bits a sum of many parts would lose the small ones.
            found = [tf.cast(gradient, tf.float32) for gradient in found]
            return of_x.write(i, of_part), *map(tf.add, sums, found)

        num_parts = tf.shape(x)[0]
        of_x = tf.TensorArray(x.dtype, num_parts, element_shape=x.shape[1:])
        sums = [tf.zeros_like(of_all, tf.float32) for of_all in (table, bias)]
        of_x, *sums = one_by_one(add, num_parts, (of_x, *sums))
        return of_x.stack(), *sums, None

    spec = tf.TensorSpec([2, x.shape[1]], tf.float32)
    values = tf.map_fn(
        loss, (x, labels), fn_output_signature=spec, parallel_iterations=1
    )
    return values, gradient


@tf.custom_gradient
def _vocabulary_loss(x, table, bias, labels):
    dtype = x.dtype
    # float16 cannot represent values below 6e-8, so the probabilities of rare
    # words would become zero.
    narrow = tf.bfloat16 if dtype == tf.bfloat16 else tf.float32

    def chosen(values, columns):
        picked = tf.gather(values, columns, axis=1, batch_dims=1)
        return tf.cast(picked, tf.float32)

    with tf.name_scope("vocabulary_loss"):
        words = tf.cast(table, dtype)
        products = tf.matmul(x, words, transpose_b=True)
        logits = tf.nn.bias_add(products, tf.cast(bias, dtype))
        own = chosen(logits, labels)
        logits = _without(logits, labels)
        others = tf.nn.softmax(tf.cast(logits, narrow))
        searched = others
        if not (has_gpu() or on_tpu()):
            # The bits of non-negative floats, as integers, have the same order.
            # A CPU searches integers in half the time; a GPU cannot.
            whole = tf.uint16 if narrow == tf.bfloat16 else tf.uint32
            searched = tf.bitcast(others, whole)
        # A GPU would compare int32 on its host.
        top = tf.argmax(searched, axis=1, output_type=tf.int64)
        highest = chosen(logits, top)
        lead = own - highest + tf.math.log(chosen(others, top))
        is_hit = (own > highest) | (
            tf.equal(own, highest) & (tf.cast(labels, top.dtype) < top)
        )
        values = tf.stack([tf.nn.softplus(-lead), tf.cast(is_hit, tf.float32)])

    def gradient(upstream):
        with tf.name_scope("vocabulary_gradient"):
            # Not upstream[0, :, tf.newaxis]: TensorFlow's graph optimizer
            # would replace it by upstream[0].
            scale = (upstream[0] * tf.sigmoid(-lead))[:, tf.newaxis]
            return _vocabulary_gradient(x, words, others, labels, scale)

    return values, gradient


def _without(logits, labels):
    """Replaces the logit of each row's label by minus infinity."""
    lowest = tf.constant(-np.inf, logits.dtype)
    if has_gpu() or on_tpu():
        # A TPU writes row after row, and TensorFlow's scatter has no GPU
        # kernel for float16. The mask is not made by comparing int32, which a
        # GPU leaves to its host.
        num_classes = tf.shape(logits)[1]
        is_label = tf.one_hot(labels, num_classes, True, False, dtype=tf.bool)
        return tf.where(is_label, lowest, logits)
    num_rows = tf.shape(logits)[0]
    places = tf.stack([tf.range(num_rows), labels], axis=1)  # one in each row
    lowest = tf.fill([num_rows], lowest)
    return tf.tensor_scatter_nd_update(logits, places, lowest)


def _minus_at(totals, labels, values):
    """Subtracts values from the rows of `totals` that the labels name."""
    if on_tpu():  # a product takes less time than a scatter
        is_label = tf.one_hot(labels, tf.shape(totals)[0], dtype=values.dtype)
        columns = tf.reshape(values, [tf.shape(values)[0], -1])
        picked = tf.matmul(is_label, columns, transpose_a=True)
        return totals - tf.reshape(picked, tf.shape(totals))
    if has_gpu():
        # The scatter adds in no fixed order. With op determinism it would run
        # on the host, but a segment sum sorts on the GPU.
        return totals - tf.math.unsorted_segment_sum(
            values, labels, tf.shape(totals)[0]
        )
    return tf.tensor_scatter_nd_sub(totals, labels[:, tf.newaxis], values)


def _vocabulary_gradient(x, words, others, labels, scale):
    """Returns the gradients of x, table and bias; None for the labels."""
    dtype = x.dtype
    rows = scale * tf.cast(x, tf.float32)
    if dtype == tf.float16:  # only the product with the loss scale fits into it
        others, left = tf.cast(others * scale, dtype), 1.0
        right, ones = x, tf.ones([1, tf.shape(x)[0]], dtype)
    else:
        left, right = scale, tf.cast(rows, dtype)
        ones = tf.cast(tf.transpose(scale), dtype)
    picked = scale * tf.cast(tf.gather(words, labels), tf.float32)
    of_x = left * _product(others, words) - picked
    of_table = _product(others, right, transpose_a=True)
    of_table = _minus_at(of_table, labels, rows)
    of_bias = _minus_at(_product(ones, others)[0], labels, scale[:, 0])
    return tf.cast(of_x, dtype), of_table, of_bias, None


def _product(*sides, **options):
    """Multiplies matrices of any dtype; returns float32."""
    return tf.cast(tf.matmul(*sides, **options), tf.float32)
