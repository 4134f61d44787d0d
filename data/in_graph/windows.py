"""`squad/windows` as TensorFlow operations, for SavedModels.

Axes: B questions, N windows of all of them, K places in a window.
"""

from typing import NamedTuple

import tensorflow as tf

from data.in_graph import packing
from data.squad.options import WindowOptions


class GraphWindows(NamedTuple):
    """The windows of all questions of a batch, in their order.

    Attributes:
      rows: int32 [N, (wordpieces)], `[CLS] question [SEP] text [SEP]`.
      question: int64 [N], number of the question.
      number: int64 [N], number among the windows of the question.
      doc_offset: int64 [N], where in the row the text begins.
      doc_start: int64 [N], first wordpiece of the paragraph in the row.
      doc_length: int64 [N], how many there are.
    """

    rows: tf.RaggedTensor
    question: tf.Tensor
    number: tf.Tensor
    doc_offset: tf.Tensor
    doc_start: tf.Tensor
    doc_length: tf.Tensor

    def batch(self) -> dict[str, tf.Tensor]:
        """The model's input, as long as the longest row."""
        return packing.padded(self.rows, self.doc_offset)

    def has_best_context(self, places: tf.Tensor) -> tf.Tensor:
        """Returns whether no other window has more context of a wordpiece.

        Args:
          places: int64 [N, K], places in the rows.

        Returns:
          Bool [N, K]; False for places outside of the text. See
          `squad.windows.spans`.
        """
        by_question = [
            tf.gather(
                tf.RaggedTensor.from_value_rowids(x, self.question).to_tensor(),
                self.question,
            )[:, tf.newaxis]
            for x in (self.doc_start, self.doc_length)
        ]
        starts, lengths = by_question  # [N, 1, windows of the question]
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
    *,
    cls_id: int,
    sep_id: int,
) -> GraphWindows:
    """Lays out questions as `windows.convert_examples` does.

    Args:
      query_ids: int32 [B, (wordpieces)], the questions.
      doc_ids: int32 [B, (wordpieces)], the texts; an empty one has a window.
      options: lengths.
      cls_id: id of [CLS].
      sep_id: id of [SEP].

    Returns:
      The windows.
    """
    num_query = tf.minimum(query_ids.row_lengths(), options.max_query_length)
    query = packing.beginnings(query_ids, num_query)
    num_tokens = doc_ids.row_lengths()
    room = options.max_seq_length - num_query - 3
    step = tf.minimum(tf.constant(options.doc_stride, tf.int64), room)
    further = tf.maximum(num_tokens - room + step - 1, 0) // step
    numbers = tf.ragged.range(further + 1)
    question, number = numbers.value_rowids(), numbers.values
    doc_start = number * tf.gather(step, question)
    doc_length = tf.minimum(
        tf.gather(room, question), tf.gather(num_tokens, question) - doc_start
    )
    first = tf.gather(doc_ids.row_starts(), question) + doc_start
    rows, doc_offset = packing.add_special_tokens(
        tf.gather(query, question),
        packing.slices(doc_ids.values, first, first + doc_length),
        cls_id=cls_id,
        sep_id=sep_id,
    )
    return GraphWindows(
        rows, question, number, doc_offset, doc_start, doc_length
    )
