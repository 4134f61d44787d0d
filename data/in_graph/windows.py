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
        is_near, there = self._near()
        starts = tf.gather(self.doc_start, there)[:, tf.newaxis]
        lengths = tf.where(is_near, tf.gather(self.doc_length, there), 0)
        lengths = lengths[:, tf.newaxis]
        shift = (self.doc_start - self.doc_offset)[:, tf.newaxis]
        left = (places + shift)[..., tf.newaxis] - starts
        least = tf.minimum(left, lengths - 1 - left)
        score = tf.cast(least, tf.float64) + 0.01 * tf.cast(lengths, tf.float64)
        # The first window wins a tie.
        best = tf.argmax(tf.where(least >= 0, score, -1.0), axis=-1)
        own = places - self.doc_offset[:, tf.newaxis]
        is_text = (own >= 0) & (own < self.doc_length[:, tf.newaxis])
        return is_text & (best == tf.shape(there, tf.int64)[1] // 2)

    def _near(self) -> tuple[tf.Tensor, tf.Tensor]:
        """The windows that may share a wordpiece with each window, in order.

        Comparing all pairs would take memory quadratic in the length of a text.
        Returns bool and int64 [N, near windows]: whether the question has such
        a window, and its index. The window itself is in the middle.
        """
        stride = self.doc_start // tf.maximum(self.number, 1)
        stride = tf.where(self.number > 0, stride, tf.int64.max)
        longest = tf.reduce_max(tf.concat([self.doc_length, [0]], axis=0))
        least = tf.reduce_min(tf.concat([stride, [tf.int64.max]], axis=0))
        reach = tf.maximum((longest - 1) // least, 0)
        count = tf.size(self.question, tf.int64)
        others = tf.range(count)[:, tf.newaxis] + tf.range(-reach, reach + 1)
        there = tf.clip_by_value(others, 0, tf.maximum(count - 1, 0))
        question = tf.gather(self.question, there)
        is_same = question == self.question[:, tf.newaxis]
        return is_same & (there == others), there


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
