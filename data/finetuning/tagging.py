"""Sentences of labelled words to rows of wordpieces, and back.

The first wordpiece of a word carries its label. A sentence that does not fit in
a row goes on in further ones; what room is left shows the words around.

Axes: S sequence, N rows.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Part(NamedTuple):
    """What stands between [CLS] and [SEP].

    Attributes:
      ids: of wordpieces.
      label_ids: of each wordpiece; 0 where `label_mask` is.
      label_mask: 1 = first wordpiece of a word that is labelled here.
    """

    ids: list[int]
    label_ids: list[int]
    label_mask: list[int]


def cut_sentence(
    words: Sequence[Sequence[int]], room: int
) -> list[tuple[int, int]]:
    """Cuts a sentence into parts that fit: first word, word behind the last.

    As full as they go: a sentence of 7, 2 and 3 pieces in a room of 9 is words
    0 to 2 and 2 to 3.
    """
    cuts, first, size = [], 0, 0
    for number, word in enumerate(words):
        if size + len(word) > room:
            cuts.append((first, number))
            first, size = number, 0
        size += len(word)
    return [*cuts, (first, len(words))]


def _surroundings(
    words: Sequence[Sequence[int]], start: int, end: int, room: int
) -> tuple[int, int]:
    """Widens words start to end by whole words on both sides until full.

    Half of what is left goes to the words before, and what one side does not
    need to the other.
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
    words: Sequence[Sequence[int]],
    labels: Sequence[int],
    start: int,
    room: int,
) -> Part:
    """Lays out some words of a document with as many around as fit.

    Args:
      words: wordpieces of each word of the document.
      labels: of the words from `start` on, which are to be labelled here.
      start: number of the first of them.
      room: most wordpieces; these words have no more.

    Returns:
      These words and the ones around, which have no labels.

    Source: section 5.3 of the paper ("maximal document context").
    """
    end = start + len(labels)
    left, right = _surroundings(words, start, end, room)
    part = Part([], [], [])
    for number in range(left, right):
        is_own = start <= number < end
        others = [0] * (len(words[number]) - 1)
        part.ids.extend(words[number])
        part.label_ids.extend(
            [labels[number - start] if is_own else 0, *others]
        )
        part.label_mask.extend([int(is_own), *others])
    return part


def words_of_rows(
    values: np.ndarray, label_mask: np.ndarray, lengths: Sequence[int]
) -> list[np.ndarray]:
    """Takes words' values from rows and joins those of split sentences.

    Args:
      values: [N, S] or [N, S, ...], of all rows of a set, in their order.
      label_mask: [N, S], 1 = first wordpiece of a word that has a label.
      lengths: words of each sentence.

    Returns:
      For each sentence an array [words] or [words, ...].

    Raises:
      ValueError: the rows have not as many words as the sentences.
    """
    flat = np.asarray(values)[np.asarray(label_mask) == 1]
    if len(flat) != sum(lengths):
        raise ValueError(
            f"the rows hold {len(flat)} words, but the sentences "
            f"{sum(lengths)}; give all rows of one set, in their order."
        )
    return np.split(flat, np.cumsum(lengths)[:-1])
