"""Finds the pairs of a start and an end with the best scores.

Axes: N windows, S sequence, K best positions (n_best_size).
"""

from collections.abc import Sequence
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
    windows: Sequence[Window], logits: np.ndarray, options: AnswerOptions
) -> list[Candidate]:
    """Returns the pairs of a question, best first.

    The order is that of `answers.predict`. The logits are float32 [N, S, 2].
    """
    # Stable, like Python's `sorted` in the original: first ties first.
    places = np.argsort(-logits, axis=1, kind="stable")
    places = places[:, : options.n_best_size]
    start, end = np.moveaxis(places, 2, 0)
    # The original sums the scores as Python floats: in float64.
    best = np.take_along_axis(logits, places, 1).astype(float)
    start_logit, end_logit = np.moveaxis(best, 2, 0)
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
    columns = (*places, start_logit, end_logit, start_logit + end_logit)
    order = np.argsort(-columns[-1], kind="stable")
    rows = zip(*(column[order].tolist() for column in columns), strict=True)
    return [
        Candidate(windows[number], *row)
        for number, row in zip(window[order], rows, strict=True)
    ]


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
