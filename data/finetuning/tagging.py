"""Converts sentences of labelled words to rows of wordpieces, and back.

The first wordpiece of a word has the label of the word. A sentence that does
not fit in a row continues in the next row. Free places of a row are filled with
the words around the sentence.

Axes: S sequence, N rows.
"""

from collections.abc import Sequence

import numpy as np


def cut_sentence(
    words: Sequence[Sequence[int]], room: int, stride: int = 0
) -> list[tuple[int, int]]:
    """Returns start and end (exclusive) of the parts that fit in a row.

    Each part has as many words as fit: if the words of a sentence have 7, 2 and
    3 wordpieces and the room is 9, the parts are [(0, 2), (2, 3)]. With a
    stride, a sentence that does not fit in one row is cut to parts of that many
    wordpieces (a longer word is a part), which leaves room for the words around
    them.
    """
    if stride and sum(map(len, words)) > room:
        room = min(room, stride)
    cuts, first, size = [], 0, 0
    for number, word in enumerate(words):
        if size and size + len(word) > room:
            cuts.append((first, number))
            first, size = number, 0
        size += len(word)
    return [*cuts, (first, len(words))]


def _surroundings(
    words: Sequence[Sequence[int]], start: int, end: int, room: int
) -> tuple[int, int]:
    """Extends a range of words on both sides to as many words as fit.

    Half of the free room is for the words before. Room that one side does not
    need is used by the other.
    """

    def widen_left(left: int, budget: int) -> tuple[int, int]:
        while left > 0 and len(words[left - 1]) <= budget:
            left -= 1
            budget -= len(words[left])
        return left, budget

    free = room - sum(map(len, words[start:end]))
    left, rest = widen_left(start, free // 2)
    budget, right = free - free // 2 + rest, end
    while right < len(words) and len(words[right]) <= budget:
        budget -= len(words[right])
        right += 1
    left, _ = widen_left(left, budget)
    return left, right


def tagged_part(
    words: Sequence[Sequence[int]], labels: Sequence[int], start: int, room: int
) -> tuple[list[int], list[int], list[int]]:
    """Returns some words of a document with as many words around as fit.

    `words` are the wordpieces of each word, `labels` the ids of the words from
    `start` on, which fit. The words around have no labels.

    Returns the wordpieces between [CLS] and [SEP], their label ids and their
    label mask, which is 1 at the first wordpiece of a word with a label in this
    row; where it is 0, the label id is 0.

    Source: section 5.3 of the paper ("maximal document context").
    """
    left, right = _surroundings(words, start, start + len(labels), room)
    of_words = dict(enumerate(labels, start))
    ids, label_ids, label_mask = [], [], []
    for number in range(left, right):
        others = [0] * (len(words[number]) - 1)
        ids += words[number]
        label_ids += [of_words.get(number, 0), *others]
        label_mask += [int(number in of_words), *others]
    return ids, label_ids, label_mask


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
