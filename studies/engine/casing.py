"""The task `casing`: how the words of a text are cased."""

import collections
import itertools
import re
from collections.abc import Iterator

from data.storage import files

_WORD = re.compile(r"[^\W\d_]+")
_LOOKED_AT = 2000  # sentences
# Of the words, for a label that is not the most frequent one. A tenth of
# English prose is capitalized.
_LEAST_SHARE = 0.01


def lines(path: str, most: int) -> Iterator[str]:
    """Yields lines of the CoNLL format for sentences spread over a text.

    The words are written in lower case, so that a cased vocabulary does not
    give the answer; `most` is the number of sentences.
    """
    for words in _sentences(path, most):
        for word in words:
            yield f"{word.lower()}\t{_case_of(word)}\n"
        yield "\n"


def is_varied(path: str) -> bool:
    """Whether a text has capitals and small letters, so that casing differs."""
    words = itertools.chain.from_iterable(_sentences(path, _LOOKED_AT))
    cases = collections.Counter(map(_case_of, words))
    found = [count for _, count in cases.most_common()]
    return len(found) > 1 and found[1] >= _LEAST_SHARE * sum(found)


def _sentences(path: str, most: int) -> Iterator[list[str]]:
    """Yields the words of sentences spread over a text, without the first.

    The first word is capitalized whether it is a name or not.
    """
    found = (_WORD.findall(line) for line in files.read_lines(path))
    sentences = [words for words in found if len(words) >= 4]
    for words in sentences[:: max(1, len(sentences) // most)][:most]:
        yield words[1:]


def _case_of(word: str) -> str:
    if word.islower():
        return "lower"
    return "capital" if word.istitle() else "other"
