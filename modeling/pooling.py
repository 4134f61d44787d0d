"""Computes vectors of texts and words from the encoder's layers.

Axis letters: see `layers`; L layers, W width of a vector (H, or L * H of
concatenated layers).
"""

from collections.abc import Sequence

import tensorflow as tf


def mix_layers(outputs: Sequence[tf.Tensor], layer_mix: str) -> tf.Tensor:
    """Combines L layers' outputs, float [B, S, H] each, by a `LAYER_MIXES`.

    Returns float32 [B, S, L, H] if separate, else [B, S, 1, W].
    """
    outputs = [tf.cast(output, tf.float32) for output in outputs]
    if layer_mix == "concat":
        return tf.concat(outputs, axis=-1)[:, :, tf.newaxis]
    if layer_mix == "sum":
        return tf.add_n(outputs)[:, :, tf.newaxis]
    return tf.stack(outputs, axis=2)


def pool(vectors: tf.Tensor, input_mask: tf.Tensor, pooling: str) -> tf.Tensor:
    """Pools the vectors of a row's real wordpieces to one vector.

    Args:
      vectors: float32 [B, S, L, W].
      input_mask: int32 [B, S]; 1 = real, [CLS] and [SEP] included.
      pooling: one of `choices.POOLINGS`.

    Returns:
      Float32 [B, 1, L, W]; the vectors unchanged if `none`.
    """
    real = input_mask[:, :, tf.newaxis, tf.newaxis] > 0
    if pooling == "cls":
        return vectors[:, :1]
    if pooling == "mean":
        shown = tf.where(real, vectors, 0.0)
        total = tf.reduce_sum(shown, axis=1, keepdims=True)
        count = tf.reduce_sum(tf.cast(real, tf.float32), axis=1, keepdims=True)
        return tf.math.divide_no_nan(total, count)  # 0 for fillers
    if pooling == "max":
        hidden = tf.where(real, vectors, tf.float32.min)
        return tf.reduce_max(hidden, axis=1, keepdims=True)
    return vectors


def pool_last(
    words: tf.Tensor, input_mask: tf.Tensor, pooling: str
) -> tf.Tensor:
    """Pools the last layer, float [B, S, H], to float32 [B, H]; see `pool`."""
    words = tf.cast(words, tf.float32)[:, :, tf.newaxis]
    return pool(words, input_mask, pooling)[:, 0, 0]


def word_means(vectors: tf.Tensor, word_ids: tf.Tensor) -> tf.Tensor:
    """Computes the vector of each word, the mean of its wordpieces' vectors.

    The vectors are float32 [B, S, L, W]; `word_ids`, int32 [B, S], are the
    words' indices in the row, -1 = padding. The result has the same shape: the
    words of a row come first, the rest is 0.
    """
    shape = tf.shape(word_ids)
    num_rows, length = shape[0], shape[1]
    first = tf.range(num_rows)[:, tf.newaxis] * length
    segments = tf.where(word_ids < 0, -1, first + word_ids)  # -1 is ignored
    means = tf.math.unsorted_segment_mean(vectors, segments, num_rows * length)
    return tf.reshape(means, tf.shape(vectors))
