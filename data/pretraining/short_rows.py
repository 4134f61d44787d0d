"""Cuts rows to half their length while they are read."""

import tensorflow as tf


def halved(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Cuts unmasked rows [B, S] to [B, S // 2].

    A pair keeps the end of its first segment and the beginning of its second,
    so that its next-sentence label stays correct. Each segment gets half of the
    room, plus what the other does not need. A single segment keeps its
    beginning.
    """
    mask, segments = batch["input_mask"], batch["segment_ids"]
    length = mask.shape[1] // 2
    total = tf.reduce_sum(mask, axis=1, keepdims=True)
    second = tf.reduce_sum(segments * mask, axis=1, keepdims=True)
    is_pair = tf.cast(second > 0, total.dtype)
    # Without [CLS] and one or two [SEP].
    a, b = total - second - 2, second - is_pair
    room = length - 2 - is_pair
    kept_a = tf.minimum(a, tf.maximum(room - room // 2 * is_pair, room - b))
    kept_b = tf.minimum(b, room - kept_a)
    kept = kept_a + kept_b + 2 + is_pair
    places = tf.range(length)[tf.newaxis]
    # [CLS], a part of the first segment, then all from its [SEP] on.
    skipped = (a - kept_a) * is_pair
    to = places + tf.where(places > 0, skipped, 0)
    to = tf.where(places > kept_a, places + a - kept_a, to)
    to = tf.where(places == kept - 1, total - 1, to)
    is_real = tf.cast(places < kept, mask.dtype)
    cut = {
        name: tf.gather(batch[name], to, batch_dims=1) * is_real
        for name in ("input_ids", "segment_ids")
    }
    return batch | cut | {"input_mask": is_real}
