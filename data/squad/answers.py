"""Converts the scores of windows to answers, one question at a time.

Axes: N windows, S sequence, K best places (n_best_size).
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from data.squad.predictions import Answer, Prediction
from data.squad.window_options import LARGE_SCORE, AnswerOptions
from data.squad.windows import Question, Window


def predict(
    questions: Sequence[Question], logits: np.ndarray, options: AnswerOptions
) -> Iterator[Prediction]:
    """Yields the prediction of each question.

    In each window, the K best starts are paired with the K best ends. A pair is
    an answer if it is in the text, is not too long, and its start has the most
    context in this window. The answers of a question are sorted by the sum of
    start and end score. Ties are ordered by window, start score and end score,
    and equal scores by position.

    "" (no answer) has the scores of [CLS] in the window where their sum is
    lowest.

    `logits`, float32 [N, S, 2], are the scores of the questions' windows, as
    start and as end; ValueError for others, or if one is not finite.

    Source: write_predictions in run_squad.py.
    """
    _check_scores(logits, sum(len(windows) for _, windows in questions))
    row = 0
    for example, windows in questions:
        scores = logits[row : row + len(windows)]
        row += len(windows)
        of_cls = scores[:, 0].tolist()
        nothing = Answer("", 0.0, *min(of_cls, key=sum, default=(0.0, 0.0)))
        candidates = _find_candidates(windows, scores, options)
        answers = _choose(candidates, nothing, options)
        found = Prediction(example, answers[0].text, answers)
        if options.version_2_with_negative:
            # Differs from the original: "" is the answer if there is no other
            # candidate, because the original stops with an AttributeError.
            found.score_diff = LARGE_SCORE
            if best := next((one for one in answers if one.text), None):
                null = nothing.start_logit + nothing.end_logit
                found.score_diff = null - best.start_logit - best.end_logit
            found.text = found.text_at(options.null_score_diff_threshold)
        yield found


def _find_candidates(
    windows: Sequence[Window], logits: np.ndarray, options: AnswerOptions
) -> list[tuple]:
    """Returns the pairs of a question in the order of `predict`, best first.

    Each is a window, the places of start and end in it, and their scores.
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
    places = window, start[window, i], end[window, j]
    columns = (*places, start_logit, end_logit)
    order = np.argsort(-(start_logit + end_logit), kind="stable")
    rows = zip(*(column[order].tolist() for column in columns), strict=True)
    return [(windows[number], *row) for number, *row in rows]


def _limits(windows: Sequence[Window]) -> np.ndarray:
    """Returns first and last start and last end (exclusive): int [3, N, 1].

    Starts are the tokens with the most context in the window.
    """
    limits = []
    for window in windows:
        span, offset = window.span, window.doc_offset
        shift, end = offset - span.doc_start, offset + span.doc_length
        limits.append((span.best_start + shift, span.best_end + shift, end))
    return np.array(limits, int).reshape(-1, 3).T[..., None]


def _check_scores(logits: np.ndarray, num_windows: int) -> None:
    if len(logits) != num_windows or logits.dtype != np.float32:
        raise ValueError(
            f"{logits.dtype} scores of {len(logits)} windows, expected float32 "
            f"of {num_windows}; score the questions that are to be answered."
        )
    # Differs from the original: it sorts such scores, in no defined order.
    finite = np.isfinite(logits).all(axis=(1, 2))
    if not finite.all():
        raise ValueError(
            f"window {np.argmin(finite)} has a score that is not finite; "
            "the checkpoint is damaged, or its training diverged."
        )


def _choose(
    candidates: Iterable[tuple], nothing: Answer, options: AnswerOptions
) -> list[Answer]:
    """Returns the n best different texts and their probabilities."""
    n_best, seen = [], set()
    # "" is ranked by its score, after answers with an equal score.
    null_waits = options.version_2_with_negative
    null_score = nothing.start_logit + nothing.end_logit
    for window, first, last, *scores in candidates:
        if null_waits and sum(scores) < null_score:
            n_best.append(nothing)
            null_waits = False
        if len(n_best) >= options.n_best_size:
            break
        shift = window.span.doc_start - window.doc_offset
        place = first + shift, last + shift
        text, start, end = window.paragraph.final_text(*place)
        if text not in seen:
            seen.add(text)
            n_best.append(Answer(text, 0.0, *scores, start, end))
    if null_waits:
        # As in the original, this may be answer n + 1.
        n_best.append(nothing)
    # The original's text if there is no candidate.
    n_best = n_best or [Answer("empty", 0.0, 0.0, 0.0)]
    scores = [answer.start_logit + answer.end_logit for answer in n_best]
    pairs = zip(n_best, softmax(scores), strict=True)
    return [answer._replace(probability=x) for answer, x in pairs]


def softmax(scores: Sequence[float]) -> list[float]:
    """Returns the probabilities of scores.

    Source: _compute_softmax in run_squad.py.
    """
    highest = max(scores)
    exponentials = [math.exp(score - highest) for score in scores]
    total = sum(exponentials)
    return [exponential / total for exponential in exponentials]
