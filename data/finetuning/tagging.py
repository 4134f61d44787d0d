"""Converts sentences of labelled words to rows of wordpieces, and back.

The first wordpiece of a word has the label of the word. A sentence that does
not fit in a row continues in the next row. Free places of a row are filled with
the words around the sentence (section 5.3 of the paper, "maximal document
context").

Word i of a document has its wordpieces from `places[i]` to `places[i + 1]`.

Axes: S sequence, N rows.
"""

import bisect
from collections.abc import Sequence

import numpy as np


def cut_sentence(
    places: Sequence[int], start: int, end: int, room: int, stride: int = 0
) -> list[tuple[int, int]]:
    """Returns first and last word (exclusive) of the parts that fit in a row.

    Each part has as many words as fit: if the words of a sentence have 7, 2 and
    3 wordpieces and the room is 9, the parts are [(0, 2), (2, 3)]. With a
    stride, a sentence that does not fit in one row is cut to parts of that many
    wordpieces (a longer word is a part), which leaves room for the words around
    them.
    """
    if stride and places[end] - places[start] > room:
        room = min(room, stride)
    cuts = []
    while start < end:
        fitting = bisect.bisect_right(places, places[start] + room) - 1
        last = min(max(fitting, start + 1), end)
        cuts.append((start, last))
        start = last
    return cuts


def surroundings(
    places: Sequence[int], start: int, end: int, room: int
) -> tuple[int, int]:
    """Extends a range of words on both sides to as many words as fit.

    Half of the free room is for the words before. Room that one side does not
    need is used by the other.
    """
    free = room - (places[end] - places[start])
    left = bisect.bisect_left(places, places[start] - free // 2)
    budget = free - (places[start] - places[left])
    right = bisect.bisect_right(places, places[end] + budget) - 1
    budget -= places[right] - places[end]
    return bisect.bisect_left(places, places[left] - budget), right


def words_of_rows(
    values: np.ndarray, label_mask: np.ndarray, lengths: Sequence[int]
) -> list[np.ndarray]:
    """Returns the values of words: [words] or [words, ...] for each sentence.

    `values` are [N, S] or [N, S, ...], all rows of a set in order; `label_mask`
    [N, S] is 1 at the first wordpiece of a word with a label; `lengths` are
    numbers of words. Raises ValueError if rows and sentences have different
    numbers of words.
    """
    flat = np.asarray(values)[np.asarray(label_mask) == 1]
    if len(flat) != sum(lengths):
        raise ValueError(
            f"the rows hold {len(flat)} words, but the sentences "
            f"{sum(lengths)}; give all rows of one set, in their order."
        )
    return np.split(flat, np.cumsum(lengths)[:-1])
