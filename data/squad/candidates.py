"""Finds the pairs of a start and an end with the best scores.

Axes: N windows, S sequence, K best positions (n_best_size).
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from data.squad.window_options import AnswerOptions
from data.squad.windows import Window

# The score difference of a question whose only candidate is "".
LARGE_SCORE = 1_000_000.0


class Candidate(NamedTuple):
    """A pair of a start and an end."""

    window: Window
    start: int
    end: int
    start_logit: float
    end_logit: float
    score: float


def find_candidates(
    questions: Sequence[Sequence[Window]],
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    options: AnswerOptions,
) -> Iterator[tuple[Iterator[Candidate], tuple[float, float]]]:
    """Yields each question's pairs, best first, and both scores of "".

    The pairs are in the order of `answers.predict`. The logits are float32 [N,
    S], the scores of all N windows.
    """
    windows = [window for windows in questions for window in windows]
    sizes = [len(windows) for windows in questions]
    question = np.repeat(np.arange(len(questions)), sizes)
    columns = _pairs(windows, start_logits, end_logits, options)
    # Stable, like Python's `sorted` in the original.
    order = np.lexsort((-columns[-1], question[columns[0]]))
    columns = [column[order] for column in columns]
    counts = np.bincount(question[columns[0]], minlength=len(questions))
    nulls = _nulls(start_logits, end_logits, sizes)
    end = 0
    for count, null in zip(counts.tolist(), nulls, strict=True):
        some = slice(end, end + count)
        end += count
        rows = (column[some].tolist() for column in columns)
        found = (
            Candidate(windows[window], *rest)
            for window, *rest in zip(*rows, strict=True)
        )
        yield found, null


def _pairs(
    windows: Sequence[Window],
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    options: AnswerOptions,
) -> tuple[np.ndarray, ...]:
    """Returns the fields of all candidates; the window is its index."""
    start, end = (
        _best_places(logits, options.n_best_size)
        for logits in (start_logits, end_logits)
    )
    # The original sums the scores as Python floats: in float64.
    start_logit = np.take_along_axis(start_logits, start, 1).astype(float)
    end_logit = np.take_along_axis(end_logits, end, 1).astype(float)
    first, last, length = _limits(windows)
    starts_well = (start >= first) & (start < last)
    ends_well = end < length
    # [N, K, K] with ends last, the original's order of pairs.
    size = end[:, None, :] - start[:, :, None] + 1
    possible = (size >= 1) & (size <= options.max_answer_length)
    possible &= starts_well[:, :, None] & ends_well[:, None, :]
    window, i, j = np.nonzero(possible)
    start_logit, end_logit = start_logit[window, i], end_logit[window, j]
    places = start[window, i], end[window, j]
    return (window, *places, start_logit, end_logit, start_logit + end_logit)


def _best_places(logits: np.ndarray, number: int) -> np.ndarray:
    """Returns the positions of the largest scores [N, K], first ties first."""
    number = min(number, logits.shape[1])
    # Each key has the score in its upper and the position in its lower 32 bits.
    # No two keys are equal, so only the K smallest need to be sorted. Read as
    # integers, the bits of floats keep their order, and those of negative ones
    # reverse it; 0 - x is never -0.
    bits = (0 - logits).view(np.int32)
    bits = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits).astype(np.int64)
    keys = (bits << 32) + np.arange(logits.shape[1])
    keys = np.partition(keys, number - 1, axis=1)[:, :number]
    return np.sort(keys, axis=1) & 0xFFFFFFFF


def _limits(windows: Sequence[Window]) -> np.ndarray:
    """Returns first and last start and last end (exclusive): int [3, N, 1].

    Starts are the tokens with the most context in the window.
    """
    limits = []
    for window in windows:
        shift = window.doc_offset - window.doc_start
        end = window.doc_offset + window.doc_length
        limits.append((window.best_start + shift, window.best_end + shift, end))
    return np.array(limits, int).reshape(-1, 3).T[..., None]


def _nulls(
    start_logits: np.ndarray, end_logits: np.ndarray, sizes: Sequence[int]
) -> list[tuple[float, float]]:
    """Returns the lowest scores of [CLS] among each question's windows."""
    starts, ends = start_logits[:, 0].tolist(), end_logits[:, 0].tolist()
    scores = list(zip(starts, ends, strict=True))
    bounds = itertools.accumulate(sizes, initial=0)
    return [
        min(scores[start:end], key=sum, default=(0.0, 0.0))
        for start, end in itertools.pairwise(bounds)
    ]
