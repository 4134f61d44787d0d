"""`text/packing` as TensorFlow operations, for SavedModels.

A batch is as long as its longest row.

Axes: B batch, S wordpieces of the longest row, N and M wordpieces of all texts.
"""

import tensorflow as tf


def pack(
    ids_a: tf.RaggedTensor,
    ids_b: tf.RaggedTensor | None = None,
    *,
    max_seq_length: int,
    cls_id: int,
    sep_id: int,
    cut: str = "longest",
) -> dict[str, tf.Tensor]:
    """Shortens and joins texts as `features.Converter` does.

    Texts are int32 [B, (wordpieces)]; `ids_b` None = there are no second texts.
    A row whose second text is empty has one [SEP]. For `cut` see
    `FeatureOptions`. Returns `input_ids`, `input_mask` (1 = token, 0 = padding)
    and `segment_ids`, int32 [B, S] each.
    """
    if ids_b is None:
        ids_b = ids_a[:, :0]
    num_a, num_b = ids_a.row_lengths(), ids_b.row_lengths()
    has_b = tf.cast(num_b > 0, tf.int64)
    room = max_seq_length - 2 - has_b
    least = {"longest": (room + 1) // 2, "first": 0 * room}[cut]
    keep_a = tf.minimum(num_a, tf.maximum(room - num_b, least))
    rows, first_lengths = add_special_tokens(
        beginnings(ids_a, keep_a),
        beginnings(ids_b, tf.minimum(num_b, room - keep_a)),
        cls_id=cls_id,
        sep_id=sep_id,
        num_seps=has_b,
    )
    return padded(rows, first_lengths)


def add_special_tokens(
    ids_a: tf.RaggedTensor,
    ids_b: tf.RaggedTensor,
    *,
    cls_id: int,
    sep_id: int,
    num_seps: tf.Tensor | None = None,
) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Joins texts to rows as `packing.add_special_tokens` does.

    Texts are int32 [B, (wordpieces)]. `num_seps` int64 [B] says how many [SEP]
    follow the second text, 0 or 1; None = one in every row. Returns the rows
    `[CLS] a [SEP] b [SEP]`, int32 [B, (wordpieces)], and the number of
    wordpieces of segment 0, int64 [B].
    """
    cls, sep = (tf.fill([ids_a.nrows(), 1], i) for i in (cls_id, sep_id))
    last = sep
    if num_seps is not None:
        last = beginnings(tf.RaggedTensor.from_tensor(sep), num_seps)
    rows = tf.concat([cls, ids_a, sep, ids_b, last], axis=1)
    return rows, ids_a.row_lengths() + 2


def padded(
    rows: tf.RaggedTensor, first_lengths: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Adds zeros after rows, int32 [B, (wordpieces)], to the same length.

    `first_lengths` int64 [B] are wordpieces of segment 0. Returns what `pack`
    does.
    """
    input_ids = rows.to_tensor()
    places = tf.range(tf.shape(input_ids, tf.int64)[1])
    is_token = places < rows.row_lengths()[:, tf.newaxis]
    is_second = is_token & (places >= first_lengths[:, tf.newaxis])
    return {
        "input_ids": input_ids,
        "input_mask": tf.cast(is_token, tf.int32),
        "segment_ids": tf.cast(is_second, tf.int32),
    }


def mask_and_segments(
    input_ids: tf.Tensor, sep_id: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds `input_mask` and `segment_ids` of the int32 [..., S] of `pack`."""
    input_mask = tf.cast(input_ids != 0, tf.int32)
    is_sep = tf.cast(input_ids == sep_id, tf.int32)
    before = tf.cumsum(is_sep, axis=-1, exclusive=True)
    return input_mask, tf.minimum(before, 1) * input_mask


def before_later_cls(input_ids: tf.Tensor, cls_id: int) -> tf.Tensor:
    """Masks each row from the first [CLS] after the first position on.

    TensorFlow Serving's batching (`pad_variable_length_inputs`) pads a tensor
    with its first element: ids with [CLS], a mask with 1. Returns int32 [...,
    S]: 1 before such a [CLS], 0 from it on.
    """
    is_cls = tf.cast(input_ids == cls_id, tf.int32)
    number = tf.cumsum(is_cls, axis=-1) - is_cls[..., :1]
    return tf.cast(number == 0, tf.int32)


def beginnings(rows: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Returns the first `lengths` (int64 [B]) values of each row."""
    starts = rows.row_starts()
    return slices(rows.values, starts, starts + lengths)


def slices(
    values: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tf.RaggedTensor:
    """Cuts [N] or [N, ...] into M parts from int64 start to end (exclusive)."""
    return tf.gather(values, tf.ragged.range(starts, ends))


def substrings(
    texts: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tf.Tensor:
    """Returns string [B, M], parts of UTF-8 texts [B] by their characters.

    `starts` and `ends` (exclusive) are int32 [B, M]. Bytes that are not UTF-8
    are dropped.
    """
    texts = tf.strings.unicode_transcode(
        texts, "UTF-8", "UTF-8", errors="ignore"
    )
    sizes = ends - starts
    return tf.strings.substr(texts[:, tf.newaxis], starts, sizes, "UTF8_CHAR")
