"""Makes rows of a group of documents, many at once.

A row is a pair of sentences or, without pairs, a run of sentences. The pairs
have the distribution of the original's
create_instances_from_document; `data.pretraining.exact.examples` has that
function itself with the same random decisions. Pairs are drawn as spans of one
flat array of ids. Truncation and rows use NumPy.
"""

import random
from array import array
from collections.abc import Iterator

import numpy as np

from data.pretraining.data_options import PretrainingDataOptions, Wordpieces
from data.pretraining.groups import DocumentGroup
from data.records.feature_spec import NO_PAIR

# Few enough that the arrays fit in the processor's cache.
_ROWS_AT_ONCE = 2048


def draw_rows(
    group: DocumentGroup,
    wordpieces: Wordpieces,
    options: PretrainingDataOptions,
    rng: np.random.Generator,
) -> Iterator[dict[str, np.ndarray]]:
    """Yields unmasked rows of the group's own documents, in their order.

    They come in blocks of some thousands, N rows of S tokens:

      input_ids: int32 [N, S], `[CLS] a [SEP] b [SEP]`, then 0; without pairs
        `[CLS] a [SEP]`, where a of `join_documents` has a [SEP] between
        documents.
      input_mask: int8 [N, S], 1 = token, 0 = padding.
      segment_ids: int32 [N, S]: 0 up to the [SEP] after a, 1 after it, 0 =
        padding.
      next_sentence_labels: int32 [N, 1]: 0 = b follows a; 1 = b is random, or
        with `sentence_order_prediction` a and b are swapped; or `NO_PAIR`.

    Raises ValueError if a random next sentence is needed, but there is only one
    document.

    Source: create_instances_from_document in create_pretraining_data.py;
    without pairs RoBERTa (Liu et al. 2019), section 4.2: doc-sentences, and
    full-sentences with `join_documents`.
    """
    values = array("q")
    draw = _pairs if options.next_sentence_prediction else _runs
    for span in draw(group, options, random.Random(int(rng.integers(1 << 62)))):
        values.extend(span)
    spans = np.reshape(values, (-1, 5))
    a_start, a_end, b_start, b_end, _ = spans.T
    sizes = a_end - a_start, b_end - b_start
    cut_a, cut_b = _tokens_to_cut(*sizes, options.max_num_tokens)
    # Each token is removed at the front or at the back with equal probability.
    front_a, front_b = rng.binomial(cut_a, 0.5), rng.binomial(cut_b, 0.5)
    a_start += front_a
    a_end -= cut_a - front_a
    b_start += front_b
    b_end -= cut_b - front_b
    tokens = np.frombuffer(group.tokens, group.tokens.typecode)
    for first in range(0, len(spans), _ROWS_AT_ONCE):
        some = spans[first : first + _ROWS_AT_ONCE]
        yield _join(tokens, some, wordpieces, options)


def _runs(
    group: DocumentGroup, options: PretrainingDataOptions, rng: random.Random
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yields start and end in `tokens` of runs of sentences, without b."""
    bounds, joins = group.bounds, options.join_documents
    ends = [document.stop for document in group.documents[: group.num_own]]
    with_separator = set(ends) if joins else ()
    start = 0
    for last in ends[-1:] if joins else ends:
        target_length = options.draw_target_length(rng)
        while start < last:
            # A row does not begin with the [SEP] between documents.
            first = bounds[start] + (start in with_separator)
            start = group.end_within(first, start, last, target_length)
            yield first, bounds[start], 0, 0, NO_PAIR
            if joins:
                target_length = options.draw_target_length(rng)


def _pairs(
    group: DocumentGroup, options: PretrainingDataOptions, rng: random.Random
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yields start and end of a and of b in `tokens`, and the label."""
    bounds = group.bounds
    for document, sentences in enumerate(group.documents[: group.num_own]):
        start, last = sentences.start, sentences.stop
        target_length = options.draw_target_length(rng)
        while start < last:
            end = group.end_reaching(start, last, target_length)
            num_sentences = end - start
            a_end = start + 1
            if num_sentences > 1:
                # int(random() * n) is randrange(n), five times as fast.
                a_end += int(rng.random() * (num_sentences - 1))
            a = bounds[start], bounds[a_end]
            b = bounds[a_end], bounds[end]
            is_coin_up = num_sentences > 1 and rng.random() < 0.5
            if num_sentences > 1 and not is_coin_up:
                yield *a, *b, 0
                start = end
            elif is_coin_up and options.sentence_order_prediction:
                yield *b, *a, 1
                start = end
            else:
                # A single sentence has no next sentence: b is random for both
                # objectives, as in BERT and ALBERT.
                num_tokens = target_length - (a[1] - a[0])
                yield *a, *_random_next(group, document, num_tokens, rng), 1
                # The next row begins with the sentence after a.
                start = a_end


def _random_next(
    group: DocumentGroup, document: int, num_tokens: int, rng: random.Random
) -> tuple[int, int]:
    """Draws about `num_tokens` tokens of sentences of another document."""
    # Differs from the original: it draws until it finds another document,
    # because the original gives up after ten draws and then labels sentences of
    # the same document as random.
    number = group.numbers[document]
    if all(other == number for other in group.numbers):
        raise ValueError(
            "--input_file: a random next sentence comes from another document, "
            "but there is only one with text; put a blank line between "
            "documents, or pass --next_sentence_prediction=false."
        )
    other = document
    while group.numbers[other] == number:
        other = int(rng.random() * len(group.numbers))
    sentences = group.documents[other]
    start = sentences[int(rng.random() * len(sentences))]
    end = group.end_reaching(start, sentences.stop, num_tokens)
    return group.bounds[start], group.bounds[end]


def _tokens_to_cut(
    num_a: np.ndarray, num_b: np.ndarray, max_num_tokens: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the number of tokens to remove from a and from b.

    Equals `packing.truncate_seq_pair`, which removes one token at a time from
    the longer one, or from b if both are equal. So a keeps what b does not
    need, and at least half of the room, rounded up.
    """
    half = (max_num_tokens + 1) // 2
    keep_a = np.minimum(num_a, np.maximum(max_num_tokens - num_b, half))
    keep_b = np.minimum(num_b, max_num_tokens - keep_a)
    return num_a - keep_a, num_b - keep_b


def _join(
    tokens: np.ndarray,
    spans: np.ndarray,
    wordpieces: Wordpieces,
    options: PretrainingDataOptions,
) -> dict[str, np.ndarray]:
    """Copies spans of `tokens` into rows with [CLS] and [SEP]."""
    a_start, a_end, b_start, b_end, labels = spans.T[:, :, None]
    num_a, num_b = a_end - a_start, b_end - b_start
    column = np.arange(options.max_seq_length)
    first_sep = 1 + num_a
    lengths = first_sep + 1
    if options.next_sentence_prediction:
        lengths = lengths + num_b + 1
    # Index in `tokens` of each place of a row.
    source = np.where(
        column < first_sep, a_start - 1 + column, b_start - 2 - num_a + column
    )
    input_ids = tokens[source.clip(0, len(tokens) - 1)].astype(np.int32)
    input_ids[:, 0] = wordpieces.cls_id
    np.put_along_axis(input_ids, first_sep, wordpieces.sep_id, axis=1)
    np.put_along_axis(input_ids, lengths - 1, wordpieces.sep_id, axis=1)
    is_token = column < lengths
    input_ids *= is_token
    return {
        "input_ids": input_ids,
        "input_mask": is_token.astype(np.int8),
        "segment_ids": ((column > first_sep) & is_token).astype(np.int32),
        "next_sentence_labels": labels.astype(np.int32),
    }
