"""Whole words of text that has no spaces between them, such as Chinese.

A segmenter says which characters are one word. Only masking uses it: the tokens
of a text are those of the tokenizer. Until masking, the id of a token that
continues a word is offset by the number of ids of the vocabulary.
"""

import functools
import itertools
import pkgutil
import re
from collections.abc import Callable, Iterable

from data.text.tokenization import FullTokenizer

# A line to its text and its words, in order.
Segmenter = Callable[[str], tuple[str, list[str]]]

_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
# Name, or the character itself -> what `str.split` takes.
_SEPARATORS = {"space": None, " ": None, "tab": "\t", "\t": "\t"}
_SHOWN = 60  # characters of a line in an error


def encoder(tokenizer: FullTokenizer, name: str) -> Callable[[str], list[int]]:
    """Returns a function from a line to ids that mark continued words.

    These are the tokenizer's ids. Those of a word's tokens after its first are
    offset by the number of ids. Punctuation is always a word. In text
    without spaces, such as Thai, a word may begin with a `##` token. `name` is
    what `--word_segmenter` says, checked by `check_name`; the function raises
    ValueError if the words of the segmenter are not those of the line.
    """
    segment, cut, vocab = _segmenter(name), tokenizer.words, tokenizer.vocab
    num_ids = max(vocab.values()) + 1

    def encode(line: str) -> list[int]:
        text, words = segment(line)
        # Where words begin, in characters of the tokens of all.
        sizes = (sum(len(token) for token, _ in cut(word)) for word in words)
        starts = {0, *itertools.accumulate(sizes)}
        ids = []
        place, is_joined = 0, False
        for token, pieces in cut(text):
            end, is_word = place + len(token), token[0].isalnum()
            is_joined = is_joined and is_word
            for piece in pieces:
                continues = is_joined and place not in starts
                ids.append(vocab[piece] + continues * num_ids)
                place, is_joined = place + len(piece.removeprefix("##")), True
            place, is_joined = end, is_word
        return ids

    return encode


def _segmenter(name: str) -> Segmenter:
    """Returns what splits a line; separators except white space are removed."""
    if _CALLABLE.fullmatch(name):
        return functools.partial(_words_of, name, _load(name))
    if name in _SEPARATORS:
        return lambda line: (line, line.split(_SEPARATORS[name]))
    return lambda line: (line.replace(name, ""), line.split(name))


def _words_of(
    name: str, function: Callable[[str], list[str]], line: str
) -> tuple[str, list[str]]:
    """Returns a line and its words by a user's function."""
    words = function(line)
    if isinstance(words, Iterable) and not isinstance(words, str):
        words = list(words)
        if all(isinstance(word, str) for word in words) and (
            "".join("".join(words).split()) == "".join(line.split())
        ):
            return line, words
    raise ValueError(
        f"--word_segmenter={name} returns {str(words)[:_SHOWN]} of "
        f"{line[:_SHOWN]!r}; expected a list of its words, which together are "
        "the line (white space may be left out)."
    )


def check_name(name: str) -> None:
    """Raises ValueError for a name that is not a word segmenter.

    Names are `space`, `tab`, a character that is not a letter or digit, and
    `module:function`.
    """
    is_separator = len(name) == 1 and not name.isalnum() and name != "\n"
    if not (name in _SEPARATORS or is_separator or _CALLABLE.fullmatch(name)):
        raise ValueError(
            f"--word_segmenter={name}; expected what is between the words "
            "(space, tab, or one character other than a letter or digit), or "
            "a function of a line, as module:function, such as jieba:lcut."
        )


def _load(name: str) -> Callable[[str], list[str]]:
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        module = name.partition(":")[0]
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
