"""What to make of a corpus, and what masking must know of its vocabulary."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple, Self

# Tokens that a vocabulary must have.
SPECIAL_TOKENS = ("[UNK]", "[CLS]", "[SEP]", "[MASK]")
MASKINGS = ("static", "dynamic")


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
      sentence_order_prediction: the second part of a pair is what follows
        the first, or both are swapped (ALBERT).
      max_ngram_size: most consecutive words (wordpieces, unless
        `do_whole_word_mask`) that are masked as one span.
      masking: `static` masks when records are written, `dynamic` leaves
        them unmasked, for run_pretraining.py to mask while reading.

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
    sentence_order_prediction: bool = False
    max_ngram_size: int = 1
    masking: str = "static"

    def __post_init__(self):
        # [CLS] a [SEP] b [SEP] with one token in a and in b.
        self._require("max_seq_length", self.max_seq_length >= 5, "5 or more")
        for name in "max_predictions_per_seq", "dupe_factor", "max_ngram_size":
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
        self._require(
            "masking", self.masking in MASKINGS, " or ".join(MASKINGS)
        )
        self._require(
            "sentence_order_prediction",
            self.next_sentence_prediction or not self.sentence_order_prediction,
            "false where --next_sentence_prediction is false: both say what "
            "pairs are",
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

    @property
    def numpy_seed(self) -> int:
        """The seed for NumPy, which takes no negative one."""
        return self.random_seed % (1 << 64)

    @property
    def max_num_tokens(self) -> int:
        """Tokens of a row without its [CLS] and its one or two [SEP]."""
        num_special = 3 if self.next_sentence_prediction else 2
        return self.max_seq_length - num_special


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
