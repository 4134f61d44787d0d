"""`text/spans` and `squad/windows` as TensorFlow operations, for SavedModels.

Axes: B questions, N windows of all of them, K places in a window.
"""

from typing import NamedTuple

import tensorflow as tf

from data.squad.window_options import WindowOptions
from data.text.in_graph import packing


class GraphWindows(NamedTuple):
    """The windows of all questions of a batch, in their order.

    `rows` are int32 [N, (wordpieces)], `[CLS] question [SEP] text [SEP]`; the
    others int64 [N]: `number` counts the windows of a `question`, `doc_offset`
    is where in the row the text begins, `doc_start` its first wordpiece in the
    paragraph.
    """

    rows: tf.RaggedTensor
    question: tf.Tensor
    number: tf.Tensor
    doc_offset: tf.Tensor
    doc_start: tf.Tensor
    doc_length: tf.Tensor

    def has_best_context(self, places: tf.Tensor) -> tf.Tensor:
        """Returns bool [N, K]: no other window has more context of a wordpiece.

        `places` are int64 [N, K] in the rows; False for those outside of the
        text. See `text.spans.spans`.
        """

        def of_question(values):  # [N, 1, windows of the question]
            rows = tf.RaggedTensor.from_value_rowids(values, self.question)
            return tf.gather(rows.to_tensor(), self.question)[:, tf.newaxis]

        starts, lengths = map(of_question, (self.doc_start, self.doc_length))
        shift = (self.doc_start - self.doc_offset)[:, tf.newaxis]
        left = (places + shift)[..., tf.newaxis] - starts
        least = tf.minimum(left, lengths - 1 - left)
        score = tf.cast(least, tf.float64) + 0.01 * tf.cast(lengths, tf.float64)
        # The first window wins a tie.
        best = tf.argmax(tf.where(least >= 0, score, -1.0), axis=-1)
        own = places - self.doc_offset[:, tf.newaxis]
        is_text = (own >= 0) & (own < self.doc_length[:, tf.newaxis])
        return is_text & (best == self.number[:, tf.newaxis])


def make_windows(
    query_ids: tf.RaggedTensor,
    doc_ids: tf.RaggedTensor,
    options: WindowOptions,
    **special: int,
) -> GraphWindows:
    """Lays out questions as `windows.convert_examples` does.

    Both ids are int32 [B, (wordpieces)]; an empty text has a window. `special`
    are `cls_id` and `sep_id`.
    """
    num_query = tf.minimum(query_ids.row_lengths(), options.max_query_length)
    query = packing.beginnings(query_ids, num_query)
    room = options.max_seq_length - num_query - 3
    parts, *places, doc_start = _parts(doc_ids, room, options.doc_stride)
    query = tf.gather(query, places[0])
    rows, doc_offset = packing.add_special_tokens(query, parts, **special)
    doc_length = parts.row_lengths()
    return GraphWindows(rows, *places, doc_offset, doc_start, doc_length)


def text_windows(
    ids: tf.RaggedTensor, stride: int, *, max_seq_length: int, **special: int
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Lays out texts as `features.Converter` does with a stride.

    `ids` are int32 [B, (wordpieces)]; `special` are `cls_id` and `sep_id`.
    Returns the model's input, int32 [N, S] each, and the text of each row,
    int64 [N].
    """
    room = tf.ones_like(ids.row_lengths()) * (max_seq_length - 2)
    parts, text, *_ = _parts(ids, room, stride)
    batch = packing.pack(parts, None, max_seq_length=max_seq_length, **special)
    return batch, text


def _parts(
    ids: tf.RaggedTensor, room: tf.Tensor, stride: int
) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Divides texts as `text.spans.spans` does; an empty one has a part.

    `ids` are int32 [B, (wordpieces)], `room` int64 [B]. Returns the parts,
    int32 [N, (wordpieces)], and of each the number of its text, its number
    within the text and its first wordpiece there, int64 [N].
    """
    num_tokens = ids.row_lengths()
    step = tf.minimum(tf.constant(stride, tf.int64), room)
    further = tf.maximum(num_tokens - room + step - 1, 0) // step
    numbers = tf.ragged.range(further + 1)
    text, number = numbers.value_rowids(), numbers.values
    start = number * tf.gather(step, text)
    first = tf.gather(ids.row_starts(), text) + start
    limit = tf.gather(ids.row_limits(), text)
    last = tf.minimum(first + tf.gather(room, text), limit)
    return packing.slices(ids.values, first, last), text, number, start
