"""What makes records of text, apart from the names of the files."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from data.pretraining import words
from data.pretraining.data_options import (
    SPECIAL_TOKENS,
    PretrainingDataOptions,
    Wordpieces,
)
from data.records import feature_spec
from data.settings import Settings, optional, setting, switch
from data.text import vocabulary
from data.text.tokenization import FullTokenizer


class Recipe(Settings, kw_only=False):
    """How text is read, and how records are written."""

    options: PretrainingDataOptions
    vocab_file: str = setting(help="The model's WordPiece vocabulary.")
    do_lower_case: bool = setting(
        True, "Lower-case the text: True for uncased models."
    )
    never_split: tuple[str, ...] = setting(
        (),
        "[new] Tokens of the vocabulary, comma-separated, that stay whole "
        "wherever a text has them, such as [ENTITY].",
    )
    word_segmenter: str | None = optional(
        "[new] Words for --do_whole_word_mask in text without spaces, such as "
        "Chinese: the separator that the text already has between words "
        "(space, tab, or a character such as /, which is removed), or a Python "
        "function that splits a line into words, such as jieba:lcut."
    )
    split_sentences: bool = switch(
        "[new] Lines are paragraphs: split them into sentences."
    )
    compression: str = setting(
        "none",
        "[new] Compression of the records; run_pretraining.py reads both.",
        choices=("none", "gzip"),
    )

    @property
    def num_ids(self) -> int:
        """Number of ids of the vocabulary, for the manifest."""
        return vocabulary.num_ids(vocabulary.load_vocab(self.vocab_file))

    def facts(self) -> dict[str, Any]:
        """All that records depend on, apart from the text, for the manifest."""
        facts = dataclasses.asdict(self)
        facts |= facts.pop("options")
        vocab = vocabulary.load_vocab(facts.pop("vocab_file"))
        facts["vocab_sha256"] = vocabulary.sha256(vocab)
        tokens = list(facts.pop("never_split"))  # as JSON has it
        # Without never_split, training takes its own flag.
        return facts | ({"never_split": tokens} if tokens else {})

    def _check(self) -> None:
        if not self.word_segmenter:
            return
        words.check_name(self.word_segmenter)
        name = f"--word_segmenter={self.word_segmenter}"
        if not self.options.do_whole_word_mask:
            raise ValueError(
                f"{name} needs --do_whole_word_mask; give both, or neither."
            )
        if self.options.masking == "dynamic":
            raise ValueError(
                f"{name} needs --masking=static: with dynamic masks, "
                "run_pretraining.py masks, and it does not know the words."
            )


class Tools(NamedTuple):
    """What a recipe makes of its vocabulary.

    `encode` makes ids of a line, `specs` are the features of a record,
    `unknown_ids` all ids of [UNK].
    """

    encode: Callable[[str], list[int]]
    tokens_by_id: dict[int, str]
    wordpieces: Wordpieces
    unknown_ids: set[int]
    specs: tuple[feature_spec.FeatureSpec, ...]


def make_tools(recipe: Recipe) -> Tools:
    """Reads the vocabulary; raises ValueError if it cannot be used."""
    options = recipe.options
    how = recipe.do_lower_case, recipe.never_split
    tokenizer = FullTokenizer(recipe.vocab_file, *how)
    vocab, encode = tokenizer.vocab, tokenizer.encode
    vocabulary.require_tokens(vocab, SPECIAL_TOKENS, recipe.vocab_file)
    wordpieces = Wordpieces.from_vocab(vocab, bool(recipe.word_segmenter))
    if recipe.word_segmenter:
        encode = words.encoder(tokenizer, recipe.word_segmenter)
    return Tools(
        encode,
        tokenizer.inv_vocab,
        wordpieces,
        {vocab["[UNK]"], vocab["[UNK]"] + wordpieces.num_ids},
        feature_spec.pretraining_features(
            options.max_seq_length,
            options.max_predictions_per_seq,
            masked=options.masking == "static",
        ),
    )
