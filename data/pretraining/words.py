"""Whole words of text that has no spaces between them, such as Chinese.

A segmenter says which characters are one word. Only masking uses it: the tokens
of a text are those of the tokenizer. A token that continues a word has the
number of ids of the vocabulary added to its id until it is masked.
"""

import functools
import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

# A line of text to its words, in order.
Segmenter = Callable[[str], list[str]]

_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_SEPARATORS = {"space": " ", "tab": "\t"}
_SHOWN = 60  # characters of a line in an error


class Tokenizer(Protocol):
    """The methods of a `FullTokenizer` that are used here."""

    vocab: Mapping[str, int]

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text."""

    def words(self, text: str) -> list[tuple[str, list[str]]]:
        """Returns words and punctuation, each with its pieces."""


def encoder(
    tokenizer: Tokenizer, word_segmenter: str | None
) -> Callable[[str], list[int]]:
    """Returns what makes ids of a line, see `Wordpieces`.

    `word_segmenter` None = `##` alone tells the words.
    """
    if word_segmenter:
        return WordEncoder(tokenizer, word_segmenter).encode
    return tokenizer.encode


class WordEncoder:
    """Text to ids that say which tokens continue a word.

    `name` is what `--word_segmenter` says, see `check_name`.
    """

    def __init__(self, tokenizer: Tokenizer, name: str):
        check_name(name)
        self._name = name
        self._tokenizer = tokenizer
        self._num_ids = max(tokenizer.vocab.values()) + 1
        self._separator = None
        self._segment = None
        if _CALLABLE.fullmatch(name):
            self._segment = _load(name)
        else:
            self._separator = _SEPARATORS.get(name, name)

    def encode(self, line: str) -> list[int]:
        """Returns the tokenizer's ids of a line; separators (not spaces) go.

        A token that is within a word, but not its first, has the number of ids
        added. Punctuation is always a word. Raises ValueError if the words of
        the segmenter are not those of the line.
        """
        text, words = self._words(line)
        cut, vocab = self._tokenizer.words, self._tokenizer.vocab
        starts = {0}
        end = 0
        for word in words:
            end += sum(len(token) for token, _ in cut(word))
            starts.add(end)
        ids = []
        place, is_joined = 0, False
        for token, pieces in cut(text):
            is_word = token[0].isalnum()
            continues = is_word and is_joined and place not in starts
            for piece in pieces:
                ids.append(vocab[piece] + continues * self._num_ids)
            place += len(token)
            is_joined = is_word
        return ids

    def _words(self, line: str) -> tuple[str, list[str]]:
        """Returns a line's text and its words."""
        if self._separator:
            if self._separator == " ":
                return line, line.split()
            if self._separator == "\t":
                return line, line.split("\t")
            words = line.split(self._separator)
            return "".join(words), words
        words = self._segment(line)
        if isinstance(words, Iterable) and not isinstance(words, str):
            words = list(words)
            if all(isinstance(word, str) for word in words) and (
                "".join("".join(words).split()) == "".join(line.split())
            ):
                return line, words
        raise ValueError(
            f"--word_segmenter={self._name} returns {str(words)[:_SHOWN]} of "
            f"{line[:_SHOWN]!r}; expected a list of its words, which together "
            "are the line (white space may be left out)."
        )


def check_name(name: str) -> None:
    """Raises ValueError for a name that is not a word segmenter.

    Names are `space`, `tab`, a character that is not a letter or digit, and
    `module:function`.
    """
    is_separator = len(name) == 1 and not name.isalnum() and name != "\n"
    if not (name in _SEPARATORS or is_separator or _CALLABLE.fullmatch(name)):
        raise ValueError(
            f"--word_segmenter={name}; expected what is between the words of "
            "the text (space, tab, or one character other than a letter or "
            "digit), or a function of a line that returns its words, as "
            "module:function, for example jieba:lcut."
        )


def _load(name: str) -> Segmenter:
    """Imports `module:function`."""
    module, _, path = name.partition(":")
    try:
        found = functools.reduce(
            getattr, path.split("."), importlib.import_module(module)
        )
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"--word_segmenter={name} cannot be imported ({error}); install "
            f"{module}, or put the folder of {module}.py on PYTHONPATH."
        ) from None
    if not callable(found):
        raise ValueError(
            f"--word_segmenter={name} is {found!r:.60}; expected a function of "
            "a line that returns its words."
        )
    return found
