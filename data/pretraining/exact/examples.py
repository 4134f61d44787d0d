"""Documents of token ids to masked sentence pairs, as the original draws them.

Every random decision comes from the one `random.Random` passed in, in the
original's order: the same corpus, options and seed give the original's
instances, one for one. Nothing here reads, writes or knows strings.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from data.pretraining.exact.instances import (
    Document,
    InstanceList,
    TrainingInstance,
    shuffle,
)
from data.pretraining.options import PretrainingDataOptions, Wordpieces
from data.text import packing


def create_training_instances(
    documents: Sequence[Document],
    wordpieces: Wordpieces,
    options: PretrainingDataOptions,
    rng: random.Random,
    progress: Callable[[range], Iterable[int]] = iter,
) -> InstanceList:
    """Makes all instances of a corpus, in random order.

    Args:
      documents: none of them empty.
      wordpieces: of the vocabulary the ids are from.
      options: what to make.
      rng: source of every random decision.
      progress: gets the range of document passes to go through and yields
        it; for a progress bar.

    Returns:
      The instances of `dupe_factor` passes over the documents.

    Source: create_training_instances in create_pretraining_data.py.
    """
    documents = list(documents)
    shuffle(documents, rng)
    instances = InstanceList(wordpieces.typecode)
    for turn in progress(range(options.dupe_factor * len(documents))):
        for instance in create_instances_from_document(
            documents, turn % len(documents), wordpieces, options, rng
        ):
            instances.append(instance)
    instances.shuffle(rng)
    return instances


def create_instances_from_document(
    documents: Sequence[Document],
    index: int,
    wordpieces: Wordpieces,
    options: PretrainingDataOptions,
    rng: random.Random,
) -> Iterator[TrainingInstance]:
    """Goes through one document once and makes rows of its sentences.

    With `next_sentence_prediction` a row is a pair: b follows a, or comes
    from another document. Without, a row is a run of whole sentences, as many
    as fit (a longer sentence is cut), in one segment.

    Args:
      documents: none of them empty.
      index: of the document to use.
      wordpieces: of the vocabulary the ids are from.
      options: what to make.
      rng: source of every random decision.

    Yields:
      The instances, in the order of the document.

    Source: create_instances_from_document in create_pretraining_data.py.
    """
    max_num_tokens = options.max_num_tokens
    # Rows are mostly full, since padding costs as much; a few are short, so
    # that fine-tuning is not the first to see short ones.
    target_length = max_num_tokens
    if rng.random() < options.short_seq_prob:
        target_length = rng.randint(2, max_num_tokens)
    start = 0
    while start < len(documents[index]):
        if options.next_sentence_prediction:
            tokens_a, tokens_b, is_random_next, start = _sentence_pair(
                documents, index, start, target_length, rng
            )
        else:
            end = documents[index].end_within(start, target_length)
            tokens_a = documents[index].slice(start, end)
            tokens_b, is_random_next, start = [], False, end
        packing.truncate_seq_pair(tokens_a, tokens_b, max_num_tokens, rng)
        tokens, segment_ids = packing.add_special_tokens(
            tokens_a,
            tokens_b,
            cls_id=wordpieces.cls_id,
            sep_id=wordpieces.sep_id,
        )
        masked = create_masked_lm_predictions(tokens, wordpieces, options, rng)
        tokens, positions, labels = masked
        yield TrainingInstance(
            tokens, segment_ids, positions, labels, is_random_next
        )


def _sentence_pair(
    documents: Sequence[Document],
    index: int,
    start: int,
    target_length: int,
    rng: random.Random,
) -> tuple[list[int], list[int], bool, int]:
    """Draws a, b and whether b is random; the last is where to go on."""
    document = documents[index]
    end = document.end_reaching(start, target_length)
    a_end = start + 1
    if end - start > 1:
        a_end = start + rng.randint(1, end - start - 1)
    tokens_a = document.slice(start, a_end)
    if end - start > 1 and rng.random() >= 0.5:
        return tokens_a, document.slice(a_end, end), False, end
    # Ten draws that all hit this document are given up: in a corpus of one
    # document b is always of the same one and yet called random. Kept from
    # the original: give a corpus of several documents.
    for _ in range(10):
        random_index = rng.randint(0, len(documents) - 1)
        if random_index != index:
            break
    other = documents[random_index]
    b_start = rng.randint(0, len(other) - 1)
    b_end = other.end_reaching(b_start, target_length - len(tokens_a))
    # What follows a was not used: the next row begins with it.
    return tokens_a, other.slice(b_start, b_end), True, a_end


def create_masked_lm_predictions(
    tokens: list[int],
    wordpieces: Wordpieces,
    options: PretrainingDataOptions,
    rng: random.Random,
) -> tuple[list[int], list[int], list[int]]:
    """Masks tokens, or whole words, of one row.

    Args:
      tokens: ids with [CLS] and [SEP], which are never masked.
      wordpieces: of the vocabulary the ids are from.
      options: how many to mask, and by what.
      rng: source of every random decision.

    Returns:
      The masked ids, the masked positions (ascending) and what stood there.

    Source: create_masked_lm_predictions in create_pretraining_data.py.
    """
    cls_id, sep_id, mask_id, ids, starts_word = wordpieces
    # Places that are masked together. Kept from the original: a b truncated
    # to begin inside a word joins the last word of a, across the [SEP].
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
    num_to_predict = min(
        options.max_predictions_per_seq,
        max(1, round(len(tokens) * options.masked_lm_prob)),
    )
    mask_token_prob, keep_share = options.mask_token_prob, options.keep_share
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
