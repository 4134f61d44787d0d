"""Options of pretraining data, and the token ids that masking needs."""

import random
from collections.abc import Mapping
from typing import NamedTuple, Self

from data.settings import Settings, positive, setting, share, switch
from data.text import vocabulary

# Tokens that a vocabulary must have.
SPECIAL_TOKENS = ("[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Options of masking: with dynamic masks, those of training.
OF_MASKS = (
    *("masked_lm_prob", "do_whole_word_mask", "max_ngram_size"),
    *("mask_token_prob", "random_token_prob"),
)


class PretrainingDataOptions(Settings, kw_only=False):
    """How text becomes examples; the defaults are the original's."""

    max_seq_length: int = setting(
        128,
        "Longest example, in tokens.",
        least=5,  # [CLS] a [SEP] b [SEP] with one token in a and in b
    )
    max_predictions_per_seq: int = positive(
        20,
        "Most masked tokens of an example; about max_seq_length * "
        "masked_lm_prob. With --masking=dynamic run_pretraining.py's counts.",
    )
    dupe_factor: int = positive(
        10,
        "Passes over the text, each with other masks; 1 if not given with "
        "--masking=dynamic.",
    )
    random_seed: int = setting(12345, "Seed of every random decision.")
    short_seq_prob: float = share(
        0.1, "Share of passes over a document that make shorter examples."
    )
    masked_lm_prob: float = setting(
        0.15, "Share of an example's tokens to mask.", above=0, most=1
    )
    do_whole_word_mask: bool = switch("Mask all pieces of a word, or none.")
    mask_token_prob: float = share(
        0.8, "[new] Share of the masked tokens that become [MASK]."
    )
    random_token_prob: float = share(
        0.1, "[new] Share of masked tokens that become random; the rest stays."
    )
    next_sentence_prediction: bool = setting(
        True,
        "[new] Make sentence pairs; if false, examples are runs of consecutive "
        "sentences with the label -1, for masked LM alone.",
    )
    join_documents: bool = switch(
        "[new] With --next_sentence_prediction=false: an example that reaches "
        "the end of a document continues with the next one, after a [SEP]. "
        "--short_seq_prob is then the share of examples that are shorter."
    )
    sentence_order_prediction: bool = switch(
        "[new] ALBERT's pairs: next_sentence_labels is 0 where b follows a, 1 "
        "where they are swapped (or, where only one sentence is left, where b "
        "is random)."
    )
    max_ngram_size: int = positive(
        1,
        "[new] Mask spans of up to this many consecutive words (wordpieces, "
        "without --do_whole_word_mask), a span of n with chance ~ 1/n.",
    )
    masking: str = setting(
        "static",
        "[new] static = examples have masks; dynamic = run_pretraining.py "
        "draws new masks in every epoch.",
        choices=("static", "dynamic"),
    )

    def _check(self) -> None:
        # 1e-9 for sums such as 0.9 + 0.1, which may be rounded up.
        most = 1 - self.mask_token_prob
        if self.random_token_prob > most + 1e-9:
            raise ValueError(
                f"--random_token_prob={self.random_token_prob}; it must be at "
                f"most 1 - mask_token_prob = {most:g}."
            )
        if self.join_documents and self.next_sentence_prediction:
            raise ValueError(
                "--join_documents needs --next_sentence_prediction=false."
            )
        if self.sentence_order_prediction and not self.next_sentence_prediction:
            raise ValueError(
                "--sentence_order_prediction needs --next_sentence_prediction."
            )

    @property
    def keep_share(self) -> float:
        """Share of the masked tokens other than [MASK] that do not change."""
        if self.mask_token_prob == 1:
            return 1.0
        # Rounded, so that 0.1 of the remaining 0.2 is the original's 0.5.
        part = self.random_token_prob / (1 - self.mask_token_prob)
        return 1 - round(part, 12)

    @property
    def numpy_seed(self) -> int:
        """The seed for NumPy, which must not be negative."""
        return self.random_seed % (1 << 64)

    @property
    def max_num_tokens(self) -> int:
        """Number of tokens of a row without [CLS] and [SEP]."""
        return self.max_seq_length - (3 if self.next_sentence_prediction else 2)

    def draw_target_length(self, rng: random.Random) -> int:
        """Draws how many tokens of text the rows of a document should have."""
        # Most rows are full, because padding costs as much as text. A few are
        # short, as in fine-tuning.
        if rng.random() < self.short_seq_prob:
            return rng.randint(2, self.max_num_tokens)
        return self.max_num_tokens


class Wordpieces(NamedTuple):
    """Facts about a vocabulary that masking needs.

    `ids` are all ids in the vocabulary's order, from which random tokens are
    drawn; `starts_word` is False for each id whose token begins with `##`.
    `num_ids` 0 = a `##` token continues a word. Otherwise it is the number of
    ids, by which the ids of tokens that continue a word are offset (see
    `data.pretraining.words`); `starts_word` has a second, False half for them.
    """

    cls_id: int
    sep_id: int
    mask_id: int
    ids: list[int]
    starts_word: list[bool]
    num_ids: int = 0

    @classmethod
    def from_vocab(
        cls, vocab: Mapping[str, int], with_words: bool = False
    ) -> Self:
        """Reads the facts from a vocabulary: token -> id.

        `with_words`: whether ids say that a token continues a word.
        """
        starts_word = [True] * (max(vocab.values()) + 1)
        for token, token_id in vocab.items():
            starts_word[token_id] = with_words or not token.startswith("##")
        num_ids = len(starts_word) if with_words else 0
        starts_word += num_ids * [False]
        special = (vocab[token] for token in ("[CLS]", "[SEP]", "[MASK]"))
        # Differs from the original: it draws the ids of empty lines at the end,
        # too, which the model does not have.
        count = vocabulary.num_ids(vocab)
        ids = [i for i in vocab.values() if i < count]
        return cls(*special, ids, starts_word, num_ids)

    @property
    def typecode(self) -> str:
        """The narrowest `array` type that holds every id."""
        return "H" if len(self.starts_word) <= 1 << 16 else "i"
