"""`finetuning/tagging` as TensorFlow operations, for SavedModels.

Axes: B sentences, W words of all of them, N rows, S wordpieces of the longest
row.
"""

from collections.abc import Mapping

import tensorflow as tf

from data.text.in_graph import packing


def words_of_pieces(
    ids: tf.RaggedTensor,
    starts: tf.RaggedTensor,
    ends: tf.RaggedTensor,
    vocab: Mapping[str, int],
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Joins wordpieces to words as `BasicTokenizer` splits them.

    The first three are int32 [B, (wordpieces)], see
    `InGraphTokenizer.tokenize_with_offsets`; `vocab` is token -> id. Returns
    the words, int32 [B, (words), (wordpieces)], and their `starts` and `ends`
    (exclusive), characters of the text, int32 [B, (words)].
    """
    continues = [False] * (max(vocab.values()) + 1)
    for token, i in vocab.items():
        continues[i] = token.startswith("##")
    first = tf.where(~tf.gather(tf.constant(continues), ids.values))[:, 0]
    bounds = tf.concat([first, ids.row_splits[-1:]], axis=0)
    pieces = tf.RaggedTensor.from_row_splits(ids.values, bounds)
    # A text begins with the first of its words.
    splits = tf.searchsorted(first, ids.row_splits, out_type=tf.int64)
    last = tf.gather(ends.values, bounds[1:] - 1)
    columns = pieces, tf.gather(starts.values, first), last
    return tuple(tf.RaggedTensor.from_row_splits(x, splits) for x in columns)


def tagged_rows(
    pieces: tf.RaggedTensor,
    *,
    max_seq_length: int,
    unknown_id: int,
    stride: int = 0,
    **special: int,
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Lays out sentences as `features.Converter` does.

    A long sentence takes several rows. The rest of a row shows the words before
    and after. A sentence without words has one row without labels. `pieces`
    are int32 [B, (words), (wordpieces)]. [UNK] stands for a word of control
    characters, which has no wordpieces, but a label. For `stride` see
    `tagging.cut_sentence`; `special` are `cls_id` and `sep_id`.

    Returns the model's input, int32 [N, S] each, and a mask, bool [N, S], of
    the first wordpiece of each word that is to be labelled in this row. Each
    word has one, in the order of the words: `tf.boolean_mask(scores, mask)` is
    [W, ...].
    """
    room = max_seq_length - 2
    words = _fitting(pieces.values, room, unknown_id)
    # Where each word begins in the wordpieces of all sentences, and the end.
    places = words.row_splits
    starts, ends, sentence = _cuts(pieces.row_splits, places, room, stride)
    first = tf.gather(pieces.row_splits, sentence)
    last = tf.gather(pieces.row_splits, sentence + 1)
    left, right = _surroundings(starts, ends, first, last, places, room)
    chosen = tf.ragged.range(tf.gather(places, left), tf.gather(places, right))
    word = tf.gather(words.value_rowids(), chosen.values)
    row = chosen.value_rowids()
    is_labelled = (
        tf.equal(chosen.values, tf.gather(places, word))
        & (word >= tf.gather(starts, row))
        & (word < tf.gather(ends, row))
    )
    ids = tf.gather(words.values, chosen)
    batch = packing.pack(ids, None, max_seq_length=max_seq_length, **special)
    label_mask = chosen.with_values(is_labelled).to_tensor()
    return batch, tf.pad(label_mask, [[0, 0], [1, 1]])


def _fitting(words, room, unknown_id):
    """Returns words of at least one wordpiece and at most a row of them."""
    sizes = words.row_lengths()
    shortened = packing.beginnings(words, tf.minimum(sizes, room))
    missing = tf.cast(tf.equal(sizes, 0), tf.int64)
    unknown = tf.fill([tf.reduce_sum(missing)], unknown_id)
    unknown = tf.RaggedTensor.from_row_lengths(unknown, missing)
    return tf.concat([shortened, unknown], axis=1)


def _cuts(sentences, places, room, stride):
    """Returns each row's first word, the one after its last, and its sentence.

    All are int64 [N]. The rows are as full as `tagging.cut_sentence` fills
    them.
    """
    first, last = sentences[:-1], sentences[1:]
    sizes = tf.gather(places, last) - tf.gather(places, first)
    # Each row of a sentence that does not fit has this many own wordpieces.
    own = [tf.constant(x, tf.int64) for x in (min(room, stride or room), room)]
    most = tf.where(sizes > room, *own)

    def fill(bounds):
        start = bounds[:, -1]
        limit = tf.gather(places, start) + most
        end = tf.searchsorted(places, limit, "right", out_type=tf.int64) - 1
        # A word of more wordpieces than the stride is a part.
        end = tf.minimum(tf.maximum(end, start + 1), last)
        return [tf.concat([bounds, end[:, tf.newaxis]], axis=1)]

    # Each sentence has one row at least.
    (bounds,) = tf.while_loop(
        lambda bounds: tf.reduce_any(bounds[:, -1] < last),
        fill,
        fill(first[:, tf.newaxis]),
        shape_invariants=[tf.TensorShape([None, None])],
    )
    starts, ends = bounds[:, :-1], bounds[:, 1:]
    is_row = (starts < ends) | tf.equal(tf.range(tf.shape(starts)[1]), 0)
    starts, ends = (tf.boolean_mask(x, is_row) for x in (starts, ends))
    return starts, ends, tf.where(is_row)[:, 0]


def _surroundings(starts, ends, first, last, places, room):
    """Returns the words that each row shows, first and after the last.

    Both are int64 [N], as `tagging.surroundings` computes them for one row. So
    are a row's own words (`starts`, `ends` exclusive) and its sentence's
    (`first`, `last` exclusive); `places` int64 [W + 1] is where each word
    begins, in wordpieces, of which `room` fit.
    """

    def size(start, end):
        return tf.gather(places, end) - tf.gather(places, start)

    def widen_left(left, budget):
        least = tf.gather(places, left) - budget
        found = tf.searchsorted(places, least, "left", out_type=tf.int64)
        return tf.maximum(found, first)

    free = room - size(starts, ends)
    left = widen_left(starts, free // 2)
    budget = free - size(left, starts)
    most = tf.gather(places, ends) + budget
    right = tf.searchsorted(places, most, "right", out_type=tf.int64) - 1
    right = tf.minimum(right, last)
    return widen_left(left, budget - size(ends, right)), right
