"""Converts documents to masked sentence pairs exactly as the original does.

All random decisions come from one `random.Random`, in the original's order. So
the same corpus, options and seed give the original's instances.
"""

import random
from collections.abc import Iterator, MutableSequence
from typing import Any, NamedTuple

from data.pretraining.data_options import PretrainingDataOptions, Wordpieces
from data.pretraining.groups import DocumentGroup
from data.progress import tracked
from data.text import packing


class TrainingInstance(NamedTuple):
    """One row before padding.

    `tokens` are ids with [CLS] and [SEP], masked at the ascending
    `masked_lm_positions`; `segment_ids` are 0 or 1.
    """

    tokens: list[int]
    masked_lm_positions: list[int]
    masked_lm_labels: list[int]
    segment_ids: list[int]
    is_random_next: bool


def create_training_instances(
    group: DocumentGroup,
    wordpieces: Wordpieces,
    options: PretrainingDataOptions,
    rng: random.Random,
) -> Iterator[TrainingInstance]:
    """Yields the instances of `dupe_factor` passes over a shuffled corpus.

    The original shuffles them too: see `shuffle`.

    Source: create_training_instances in create_pretraining_data.py.
    """
    num_documents = len(group.documents)
    shuffle(group.documents, rng)
    turns = range(options.dupe_factor * num_documents)
    for turn in tracked(turns, "masking", "documents"):
        yield from create_instances_from_document(
            group, turn % num_documents, wordpieces, options, rng
        )


def create_instances_from_document(
    group: DocumentGroup,
    index: int,
    wordpieces: Wordpieces,
    options: PretrainingDataOptions,
    rng: random.Random,
) -> Iterator[TrainingInstance]:
    """Yields the instances of the document with number `index`.

    With `next_sentence_prediction` a row is a pair: b follows a or comes from
    another document. Without it a row has one segment of as many whole
    sentences as fit; a longer sentence is cut.

    Source: create_instances_from_document in create_pretraining_data.py.
    """
    document, most = group.documents[index], options.max_num_tokens
    target_length = options.draw_target_length(rng)
    start = document.start
    while start < document.stop:
        if options.next_sentence_prediction:
            tokens_a, tokens_b, is_random_next, start = _sentence_pair(
                group, index, start, target_length, rng
            )
        else:
            first = group.bounds[start]
            end = group.end_within(first, start, document.stop, target_length)
            tokens_a = group.slice(start, end)
            tokens_b, is_random_next, start = [], False, end
        packing.truncate_seq_pair(tokens_a, tokens_b, most, rng)
        tokens, segment_ids = packing.add_special_tokens(
            tokens_a, tokens_b, wordpieces.cls_id, wordpieces.sep_id
        )
        masked = create_masked_lm_predictions(tokens, wordpieces, options, rng)
        yield TrainingInstance(*masked, segment_ids, is_random_next)


def _sentence_pair(
    group: DocumentGroup,
    index: int,
    start: int,
    target_length: int,
    rng: random.Random,
) -> tuple[list[int], list[int], bool, int]:
    """Returns a, b, whether b is random, and the next first sentence."""
    documents = group.documents
    end = group.end_reaching(start, documents[index].stop, target_length)
    a_end = start + 1
    if end - start > 1:
        a_end = start + rng.randint(1, end - start - 1)
    tokens_a = group.slice(start, a_end)
    if end - start > 1 and rng.random() >= 0.5:
        return tokens_a, group.slice(a_end, end), False, end
    # As in the original, b is from the same document and labelled as random if
    # ten draws find no other document, as in a corpus of one document.
    for _ in range(10):
        random_index = rng.randint(0, len(documents) - 1)
        if random_index != index:
            break
    other = documents[random_index]
    b_start = other[rng.randint(0, len(other) - 1)]
    num_tokens = target_length - len(tokens_a)
    b_end = group.end_reaching(b_start, other.stop, num_tokens)
    # The next row begins with the sentence after a.
    return tokens_a, group.slice(b_start, b_end), True, a_end


def create_masked_lm_predictions(
    tokens: list[int],
    wordpieces: Wordpieces,
    options: PretrainingDataOptions,
    rng: random.Random,
) -> tuple[list[int], list[int], list[int]]:
    """Masks tokens or whole words of one row.

    [CLS] and [SEP] are never masked. `tokens` may say which tokens continue a
    word, see `Wordpieces`; the result's do not. Returns the masked ids, the
    masked positions (ascending) and the original tokens.

    Source: create_masked_lm_predictions in create_pretraining_data.py.
    """
    cls_id, sep_id, mask_id, ids, starts_word, num_ids = wordpieces
    # Positions that are masked together. As in the original, if b begins inside
    # a word, its first wordpieces are joined to the last word of a.
    candidates = []
    for position, token in enumerate(tokens):
        if token == cls_id or token == sep_id:
            continue
        if options.do_whole_word_mask and candidates and not starts_word[token]:
            candidates[-1].append(position)
        else:
            candidates.append([position])
    shuffle(candidates, rng)

    # round() is to even, and the count includes the special tokens.
    wanted = max(1, round(len(tokens) * options.masked_lm_prob))
    num_to_predict = min(options.max_predictions_per_seq, wanted)
    mask_token_prob, keep_share = options.mask_token_prob, options.keep_share
    if num_ids:  # the words are not needed any more
        tokens = [token % num_ids for token in tokens]
    output_tokens = list(tokens)
    positions = []
    for word in candidates:
        if len(positions) >= num_to_predict:
            break
        if len(positions) + len(word) > num_to_predict:
            continue
        for position in word:
            positions.append(position)
            if rng.random() < mask_token_prob:
                output_tokens[position] = mask_id
            elif rng.random() >= keep_share:
                output_tokens[position] = ids[rng.randint(0, len(ids) - 1)]
    positions.sort()
    return output_tokens, positions, [tokens[i] for i in positions]


def shuffle(items: MutableSequence[Any], rng: random.Random) -> None:
    """Equals `rng.shuffle(items)`, but is about twice as fast.

    It inlines `Random._randbelow`, which takes half of the time of masking.
    """
    getrandbits = rng.getrandbits
    for i in range(len(items) - 1, 0, -1):
        num_bits = (i + 1).bit_length()
        j = getrandbits(num_bits)
        while j > i:
            j = getrandbits(num_bits)
        items[i], items[j] = items[j], items[i]
