"""`squad/answers` as TensorFlow operations, for SavedModels.

Axes: B questions, N windows, S sequence, K best places of a window, M best
spans of a question.
"""

from typing import NamedTuple

import tensorflow as tf

from data.in_graph.windows import GraphWindows
from data.squad.window_options import AnswerOptions

# Spans of a question that are searched for n different texts: the same text
# often occurs in several places.
_MOST_SPANS = 128
_NEVER = float("-inf")


class Spans(NamedTuple):
    """The best spans of each question, the best first.

    `score` float64 [B, M] is start and end score together, -inf = there are no
    more; `first` and `last` int64 [B, M] are wordpieces of the paragraph;
    `null` float64 [B] is the least score that [CLS] has in any window.
    """

    score: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor
    null: tf.Tensor


def best_spans(
    logits: tf.Tensor, windows: GraphWindows, options: AnswerOptions
) -> Spans:
    """Pairs the best starts and ends of each window, as `answers.predict` does.

    `logits` are float32 [N, S, 2], as start and as end; S as the longest
    window.
    """
    # Padding is never among the best, whatever its scores are.
    is_text = tf.sequence_mask(windows.rows.row_lengths(), tf.shape(logits)[1])
    logits = tf.where(is_text[:, :, tf.newaxis], logits, _NEVER)
    score, *span = _pairs(logits, windows, options)
    score = _by_question(score, windows.question, _NEVER)
    first, last = (_by_question(x, windows.question, 0) for x in span)
    most = tf.minimum(_MOST_SPANS, tf.shape(score)[1])
    score, places = tf.math.top_k(score, most)
    null = tf.reduce_sum(tf.cast(logits[:, 0], tf.float64), axis=1)
    return Spans(
        score,
        tf.gather(first, places, batch_dims=1),
        tf.gather(last, places, batch_dims=1),
        tf.math.segment_min(null, windows.question),
    )


def _pairs(
    logits: tf.Tensor, windows: GraphWindows, options: AnswerOptions
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Pairs the K best starts of each window with its K best ends.

    Returns scores, float64, and first and last wordpieces of the paragraph,
    int64; [N, K, K] each.
    """
    num_places = tf.minimum(options.n_best_size, tf.shape(logits)[1])
    (start_score, start), (end_score, end) = (
        tf.math.top_k(x, num_places) for x in tf.unstack(logits, axis=2)
    )
    start, end = tf.cast(start, tf.int64), tf.cast(end, tf.int64)
    possible = windows.has_best_context(start)[:, :, tf.newaxis]
    start, end = start[:, :, tf.newaxis], end[:, tf.newaxis, :]
    text_end = windows.doc_offset + windows.doc_length
    possible &= end < text_end[:, tf.newaxis, tf.newaxis]
    length = end - start + 1
    possible &= (length >= 1) & (length <= options.max_answer_length)
    score = (
        tf.cast(start_score, tf.float64)[:, :, tf.newaxis]
        + tf.cast(end_score, tf.float64)[:, tf.newaxis, :]
    )
    score = tf.where(possible, score, _NEVER)
    shift = (windows.doc_start - windows.doc_offset)[:, tf.newaxis, tf.newaxis]
    first = start + shift + tf.zeros_like(length)
    return score, first, first + length - 1


def _by_question(
    values: tf.Tensor, question: tf.Tensor, filler: float
) -> tf.Tensor:
    """Joins the windows of each question: [N, K, K] -> [B, values]."""
    rows = tf.RaggedTensor.from_value_rowids(values, question)
    rows = rows.to_tensor(tf.cast(filler, values.dtype))
    return tf.reshape(rows, [tf.shape(rows)[0], -1])


def probabilities(
    spans: Spans, texts: tf.Tensor, options: AnswerOptions
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the probabilities of the best span and of no answer.

    They are computed among the n best answers with different texts, `texts`
    string [B, M]. Both are float32 [B]; 0 where there is no span, or where no
    answer is not allowed.
    """
    same = tf.equal(texts[:, :, tf.newaxis], texts[:, tf.newaxis, :])
    # Each span with those before it.
    before = tf.linalg.band_part(tf.cast(same, tf.int32), -1, 0)
    is_new = tf.equal(tf.reduce_sum(before, axis=2), 1)
    is_new &= spans.score > _NEVER
    rank = tf.cumsum(tf.cast(is_new, tf.int32), axis=1)
    most, null = options.n_best_size, spans.null[:, tf.newaxis]
    if options.version_2_with_negative:
        # No answer takes the last place, unless all n are better.
        is_better = spans.score >= null
        most -= tf.cast(~is_better, tf.int32)
    else:
        null = tf.fill(tf.shape(null), tf.cast(_NEVER, tf.float64))
    score = tf.where(is_new & (rank <= most), spans.score, _NEVER)
    score = tf.concat([score, null], axis=1)
    # Of nothing but -inf, softmax is NaN.
    found = tf.where(score > _NEVER, tf.nn.softmax(score), 0.0)
    found = tf.cast(found, tf.float32)
    return found[:, 0], found[:, -1]
