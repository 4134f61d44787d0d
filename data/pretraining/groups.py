"""Documents in flat arrays of ids, for both writers."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable


class DocumentGroup:
    """Documents that give each other random next sentences.

    Sentence i is `tokens[bounds[i]:bounds[i + 1]]`. `documents` has the
    sentences of each document, `numbers` its number in the corpus; parts of a
    long document have the same number. The first `num_own` documents make rows,
    the others only random next sentences; None = all make rows. `separator` is
    an id before the first sentence of each document but the first; None = none.
    """

    def __init__(self, typecode: str, separator: int | None = None):
        self.separator = separator
        self.tokens = array(typecode)
        self.bounds = array("Q", [0])
        self.documents: list[range] = []
        self.numbers: list[int] = []
        self.num_own: int | None = None

    def add(self, number: int, sentences: Iterable[list[int]]) -> None:
        """Adds a document or a part of one; empty sentences are left out."""
        first = len(self.bounds) - 1
        separates = self.separator is not None and first > 0
        for sentence in filter(None, sentences):
            if separates:
                self.tokens.append(self.separator)
                separates = False
            self.tokens.extend(sentence)
            self.bounds.append(len(self.tokens))
        if first < len(self.bounds) - 1:
            self.documents.append(range(first, len(self.bounds) - 1))
            self.numbers.append(number)

    def slice(self, start: int, end: int) -> list[int]:
        """Returns the tokens of the sentences `start` to before `end`."""
        return self.tokens[self.bounds[start] : self.bounds[end]].tolist()

    def end_reaching(self, start: int, last: int, num_tokens: int) -> int:
        """Returns the end of the shortest run with at least `num_tokens`.

        The run begins at sentence `start`, has at least one sentence, and ends
        before `last`.
        """
        wanted = self.bounds[start] + num_tokens
        return bisect_left(self.bounds, wanted, start + 1, last)

    def end_within(self, first: int, start: int, last: int, most: int) -> int:
        """Returns the end of the longest run with at most `most` tokens.

        The run begins with token `first`, in sentence `start`, and ends before
        `last`. It has at least one sentence, even if that is longer.
        """
        end = bisect_right(self.bounds, first + most, start + 1, last + 1) - 1
        return max(end, start + 1)

    def counts(self, unknown_ids: Collection[int]) -> dict[str, int]:
        """Counts documents, sentences, wordpieces and unknown ones."""
        num_separators = 0
        if self.separator is not None:
            num_separators = max(len(self.documents) - 1, 0)
        return {
            "documents": len(self.documents),
            "sentences": len(self.bounds) - 1,
            "wordpieces": len(self.tokens) - num_separators,
            "unknown": sum(map(self.tokens.count, unknown_ids)),
        }
