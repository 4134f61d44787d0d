"""Adds words and positions to a model, initialized from its weights.

    grown = growth.Grown(checkpoint, config, tokens)
    grown.add_words(["angioplasty"], do_lower_case=True)
    grown.add_positions(1024)

`grown` then has the larger configuration and vocabulary, and reads as a
checkpoint does.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable

import numpy as np
from absl import logging

from data.storage import files
from data.text.tokenization import BasicTokenizer, WordpieceTokenizer
from modeling.checkpoints import Weights
from modeling.config import BertConfig
from training.convert.generator import Generator

_POSITIONS = "/embeddings/position_embeddings"
# The variables with a row for each token.
BY_TOKEN = frozenset(
    (
        "bert/embeddings/word_embeddings",
        "cls/predictions/output_bias",
        "electra/embeddings/word_embeddings",
        "generator_predictions/output_bias",
    )
)
_UNUSED = re.compile(r"\[unused\d+\]")
_MOST_NAMED = 8


class Grown:
    """A checkpoint with more words and positions.

    The checkpoint has a whole encoder that fits the configuration; the tokens
    are its vocabulary, in the order of the ids.

    Attributes:
      config: `BertConfig`, with the sizes of the grown model.
      tokens: the vocabulary of the grown model.
      shapes: our name -> the shape in the checkpoint, before it grew.
      is_generator: whether it is the generator of an ELECTRA.
    """

    def __init__(
        self,
        checkpoint: Weights,
        config: BertConfig,
        tokens: Iterable[str],
    ):
        self._checkpoint = checkpoint
        self._pieces: dict[int, list[int]] = {}  # new id -> ids of its pieces
        self.config = config
        self.tokens = list(tokens)
        self.shapes = checkpoint.shapes
        self.is_generator = isinstance(checkpoint, Generator)

    def read(self, name: str) -> np.ndarray:
        """Returns a variable's value, with the new rows."""
        value = self._checkpoint.read(name)
        if name.endswith(_POSITIONS):
            # Row i is row i modulo their number.
            rows = np.arange(self.config.max_position_embeddings)
            return value[rows % len(value)]
        if name not in BY_TOKEN:
            return value
        more = self.config.vocab_size - len(value)
        grown = np.pad(value, [(0, more)] + [(0, 0)] * (value.ndim - 1))
        for row, pieces in self._pieces.items():
            grown[row] = value[pieces].mean(axis=0)
        return grown

    def add_positions(self, number: int) -> None:
        """Repeats the rows of the positions until there are `number`.

        Raises ValueError if the model has more positions already.
        """
        before = self.config.max_position_embeddings
        if number < before:
            raise ValueError(
                f"--max_position_embeddings={number}; the model has {before} "
                "positions, which are not taken away: shorter texts need no "
                "conversion. Give a larger number, or leave the flag out."
            )
        self.config = dataclasses.replace(
            self.config, max_position_embeddings=number
        )
        if number > before:
            logging.warning(
                "Positions %d to %d repeat positions 0 to %d and are not "
                "trained. Train on long texts before you rely on them, with "
                "--max_seq_length up to %d. Attention takes %.1f times the "
                "memory and time there.",
                *(before, number - 1, before - 1, number),
                (number / before) ** 2,
            )

    def add_words(
        self,
        words: Iterable[str],
        do_lower_case: bool,
        never_split: Collection[str] = (),
        source: str = "the list of words",
    ) -> None:
        """Adds words, in rows named `[unusedN]` first, then in new rows.

        The first weights of a word are the mean of its wordpieces' weights.
        Words of the vocabulary are left as they are. Raises ValueError, which
        names `source`, if there are no words, or the tokenizer would never make
        one of them; words in `never_split` it need not make.
        """
        words = list(dict.fromkeys(words))
        basic = BasicTokenizer(do_lower_case)
        _require_whole(words, basic, never_split, source)
        lines = enumerate(map(str.strip, self.tokens))
        ids = {token: i for i, token in lines if token}
        del self.tokens[1 + max(ids.values()) :]  # blank lines at the end
        wordpiece = WordpieceTokenizer(ids)
        new = [word for word in words if word not in ids]
        unused = [i for i, t in enumerate(self.tokens) if _UNUSED.fullmatch(t)]
        for number, word in enumerate(new):
            pieces = wordpiece.tokenize(" ".join(basic.tokenize(word)))
            row = unused[number] if number < len(unused) else len(self.tokens)
            self.tokens[row : row + 1] = [word]
            self._pieces[row] = [ids[piece] for piece in pieces]
        size = max(self.config.vocab_size, len(self.tokens))
        self.config = dataclasses.replace(self.config, vocab_size=size)
        known = sorted(set(words) - set(new))
        of_unknown = [
            self.tokens[row]
            for row, pieces in self._pieces.items()
            if set(pieces) == {ids[wordpiece.unk_token]}
        ]
        num_unused = min(len(new), len(unused))
        logging.info(
            "Of %d words, %d replace [unused] tokens and %d are new rows. Each "
            "begins with the mean of its wordpieces' weights and needs "
            "training.",
            *(len(words), num_unused, len(new) - num_unused),
        )
        _warn("%d words are in the vocabulary already: %s", known)
        _warn("%d words have no wordpieces but [UNK]: %s", of_unknown)


def read_words(path: str) -> list[str]:
    """Reads words from a UTF-8 file, one a line; blank lines are left out.

    White space around a word is removed. Raises ValueError if it is not UTF-8.
    """
    lines = (line.strip() for line in files.read_lines(path))
    return [line for line in lines if line]


def _require_whole(
    words: list[str],
    basic: BasicTokenizer,
    never_split: Collection[str],
    source: str,
) -> None:
    """Refuses words that the tokenizer would never make."""
    if not words:
        raise ValueError(
            f"{source} has no words; expected one word on each line."
        )
    longest = WordpieceTokenizer(()).max_input_chars_per_word
    whole = [w for w in words if w not in never_split]
    cut = [w for w in whole if basic.tokenize(w) != [w] or len(w) > longest]
    if cut:
        becomes = " ".join(basic.tokenize(cut[0])) or "nothing"
        lower = "lower-cased, " if basic.do_lower_case else ""
        raise ValueError(
            f"{source}: {len(cut)} of {len(words)} words would never be found "
            f"in a text: {_some(cut)}. Text is {lower}split at white space, at "
            "punctuation and around each Chinese character, and words over "
            f"{longest} characters are unknown: {cut[0][:longest]!r} becomes "
            f"{becomes[:longest]!r}. Write them so, leave them out, or name "
            "them in --never_split."
        )


def _warn(message: str, names: list[str]) -> None:
    """Warns of words, if there are any, with their number."""
    if names:
        logging.warning(message, len(names), _some(names))


def _some(names: list[str]) -> str:
    """Lists names, at most `_MOST_NAMED`."""
    more = len(names) - _MOST_NAMED
    text = ", ".join(name[:80] for name in names[:_MOST_NAMED])
    return f"{text} and {more} more" if more > 0 else text
