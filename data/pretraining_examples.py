"""Documents of token ids to masked sentence pairs, as the original draws them.

Every random decision comes from the one `random.Random` passed in, in the
original's order: the same corpus, options and seed give the original's
instances, one for one. Nothing here reads, writes or knows strings.
"""

import dataclasses
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

from data import packing
from data.instances import Document, InstanceList, TrainingInstance, shuffle


@dataclasses.dataclass(frozen=True)
class PretrainingDataOptions:
    """What to make of the text; the defaults are the original's.

    Attributes:
      max_seq_length: longest row in tokens, with [CLS] and [SEP].
      max_predictions_per_seq: most tokens masked in one row.
      dupe_factor: passes over the documents, each with other masks.
      random_seed: seed of every random decision.
      short_seq_prob: share of document passes with a shorter target length.
      masked_lm_prob: share of a row's tokens to mask.
      do_whole_word_mask: mask all pieces of a word or none.
      mask_token_prob: share of the masked tokens replaced by [MASK].
      random_token_prob: share replaced by a random token; the rest stays.
      next_sentence_prediction: rows are pairs; if False, runs of sentences.

    Raises:
      ValueError: a value is out of its range.
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    dupe_factor: int = 10
    random_seed: int = 12345
    short_seq_prob: float = 0.1
    masked_lm_prob: float = 0.15
    do_whole_word_mask: bool = False
    mask_token_prob: float = 0.8
    random_token_prob: float = 0.1
    next_sentence_prediction: bool = True

    def __post_init__(self):
        # [CLS] a [SEP] b [SEP] with one token in a and in b.
        self._require("max_seq_length", self.max_seq_length >= 5, "5 or more")
        for name in "max_predictions_per_seq", "dupe_factor":
            self._require(name, getattr(self, name) >= 1, "1 or more")
        for name in "short_seq_prob", "mask_token_prob", "random_token_prob":
            self._require(name, 0 <= getattr(self, name) <= 1, "0 to 1")
        self._require(
            "masked_lm_prob", 0 < self.masked_lm_prob <= 1, "above 0, up to 1"
        )
        self._require(
            "random_token_prob",
            # Room for sums such as 0.9 + 0.1, which floats may round up.
            self.mask_token_prob + self.random_token_prob <= 1 + 1e-9,
            f"at most 1 - mask_token_prob = {1 - self.mask_token_prob:g}",
        )

    def _require(self, name: str, holds: bool, expected: str) -> None:
        """Raises unless an option is in its range."""
        if not holds:
            raise ValueError(
                f"--{name} is {getattr(self, name)}, expected {expected}."
            )

    @property
    def keep_share(self) -> float:
        """Of the masked tokens that are not [MASK], the share that stays."""
        if self.mask_token_prob == 1:
            return 1.0
        # Rounded, so that 0.1 of the remaining 0.2 is the original's 0.5.
        return 1 - round(
            self.random_token_prob / (1 - self.mask_token_prob), 12
        )


class Wordpieces(NamedTuple):
    """What masking must know of a vocabulary.

    Attributes:
      cls_id: id of [CLS].
      sep_id: id of [SEP].
      mask_id: id of [MASK].
      ids: every id, in the vocabulary's order: where random tokens come from.
      starts_word: for each id, False if its token begins with `##`.
    """

    cls_id: int
    sep_id: int
    mask_id: int
    ids: list[int]
    starts_word: list[bool]

    @classmethod
    def from_vocab(cls, vocab: Mapping[str, int]) -> Self:
        """Takes them from a vocabulary (token -> id) with these tokens."""
        starts_word = [True] * (max(vocab.values()) + 1)
        for token, token_id in vocab.items():
            starts_word[token_id] = not token.startswith("##")
        return cls(
            cls_id=vocab["[CLS]"],
            sep_id=vocab["[SEP]"],
            mask_id=vocab["[MASK]"],
            ids=list(vocab.values()),
            starts_word=starts_word,
        )

    @property
    def typecode(self) -> str:
        """The narrowest `array` type that holds every id."""
        return "H" if len(self.starts_word) <= 1 << 16 else "i"


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
    num_special = 3 if options.next_sentence_prediction else 2
    max_num_tokens = options.max_seq_length - num_special
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
