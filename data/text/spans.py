"""Overlapping parts of a text that is longer than a row."""

import functools
from typing import NamedTuple

import numpy as np


def starts_of(num_tokens: int, room: int, stride: int) -> range:
    """Returns where the parts of a text begin; an empty text has one."""
    # The original takes min(length, doc_stride). Only the last part is shorter
    # than the room, so this is min(room, stride).
    step = min(stride, room)
    further = -(-max(num_tokens - room, 0) // step)
    return range(0, (further + 1) * step, step)


class Span(NamedTuple):
    """The part of a text that is in a window, in wordpieces of the text.

    The part begins at `doc_start`. Those from `best_start` up to `best_end`
    (exclusive) have more context in this window than in any other.
    """

    doc_start: int
    doc_length: int
    best_start: int
    best_end: int


@functools.lru_cache(maxsize=1 << 14)
def spans(num_tokens: int, room: int, stride: int) -> tuple[Span, ...]:
    """Divides a text into overlapping parts of at most `room` wordpieces.

    A part begins `stride` wordpieces after the one before. A wordpiece has the
    most context in the part with the largest min(tokens to its left, tokens to
    its right) + 0.01 length, and in the first of equal ones.

    Source: _check_is_max_context in run_squad.py.
    """
    if num_tokens <= room:
        return (Span(0, num_tokens, 0, num_tokens),) if num_tokens else ()
    starts = np.array(starts_of(num_tokens, room, stride))
    lengths = np.minimum(room, num_tokens - starts)
    left = np.arange(num_tokens) - starts[:, None]
    right = lengths[:, None] - 1 - left
    least = np.minimum(left, right)
    # In float64 as in the original, which decides what is a tie.
    score = np.where(least >= 0, least + 0.01 * lengths[:, None], -1.0)
    best = np.argmax(score, axis=0)  # of equals the first
    numbers = np.arange(len(starts))
    first = np.searchsorted(best, numbers, "left")  # `best` is ascending
    last = np.searchsorted(best, numbers, "right")
    rows = np.stack([starts, lengths, first, last], axis=1).tolist()
    return tuple(Span(*row) for row in rows)
