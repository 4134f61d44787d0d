"""Converts the scores of windows to answers, one question at a time.

Axes: N windows, S sequence, K best places (n_best_size).
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from data.squad.candidates import LARGE_SCORE, Candidate, find_candidates
from data.squad.examples import SquadExample
from data.squad.final_text import final_text
from data.squad.predictions import Answer, Prediction
from data.squad.window_options import AnswerOptions
from data.squad.windows import Question


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

    Args:
      questions: each with its windows, in the order of the scores.
      logits: float32 [N, S, 2], the scores of all windows, as start and as end.
      options: how answers are chosen.

    Raises:
      ValueError: the type or the number of the scores is wrong, or a score is
        not finite.

    Source: write_predictions in run_squad.py.
    """
    _check_scores(logits, sum(len(windows) for _, windows in questions))
    row = 0
    for example, windows in questions:
        scores = logits[row : row + len(windows)]
        row += len(windows)
        candidates = find_candidates(windows, scores, options)
        of_cls = scores[:, 0].tolist()
        nothing = Answer("", 0.0, *min(of_cls, key=sum, default=(0.0, 0.0)))
        n_best = _choose(candidates, nothing, options)
        yield _prediction(example, n_best, nothing, options)


def _check_scores(logits: np.ndarray, num_windows: int) -> None:
    if len(logits) != num_windows or logits.dtype != np.float32:
        raise ValueError(
            f"{logits.dtype} scores of {len(logits)} windows, expected float32 "
            f"of {num_windows}; score the questions that are to be answered, "
            "with the same lengths and vocabulary."
        )
    finite = np.isfinite(logits).all(axis=(1, 2))
    if not finite.all():
        raise ValueError(
            f"window {np.argmin(finite)} has a score that is not finite; "
            "the checkpoint is damaged, or its training diverged."
        )


def _choose(
    candidates: Iterable[Candidate], nothing: Answer, options: AnswerOptions
) -> list[Answer]:
    """Returns the n best different texts, without probabilities."""
    n_best, seen = [], set()
    # "" is ranked by its score, after answers with an equal score.
    null_waits = options.version_2_with_negative
    null_score = nothing.start_logit + nothing.end_logit
    for candidate in candidates:
        if null_waits and candidate.score < null_score:
            n_best.append(nothing)
            null_waits = False
        if len(n_best) >= options.n_best_size:
            break
        window = candidate.window
        shift = window.doc_start - window.doc_offset
        text, start, end = final_text(
            window.paragraph, candidate.start + shift, candidate.end + shift
        )
        if text not in seen:
            seen.add(text)
            scores = candidate.start_logit, candidate.end_logit
            n_best.append(Answer(text, 0.0, *scores, start, end))
    if null_waits:
        # As in the original, this may be answer n + 1.
        n_best.append(nothing)
    # The original's text if there is no candidate.
    return n_best or [Answer("empty", 0.0, 0.0, 0.0)]


def _prediction(
    example: SquadExample,
    n_best: list[Answer],
    nothing: Answer,
    options: AnswerOptions,
) -> Prediction:
    """Adds the probabilities and chooses the answer."""
    scores = [answer.start_logit + answer.end_logit for answer in n_best]
    answers = [
        answer._replace(probability=probability)
        for answer, probability in zip(n_best, softmax(scores), strict=True)
    ]
    prediction = Prediction(example, answers[0].text, answers)
    if options.version_2_with_negative:
        # Differs from the original: "" is the answer if there is no other
        # candidate, because the original stops with an AttributeError.
        prediction.score_diff = LARGE_SCORE
        if best := next((one for one in answers if one.text), None):
            null_score = nothing.start_logit + nothing.end_logit
            score_diff = null_score - best.start_logit - best.end_logit
            prediction.score_diff = score_diff
        prediction.text = prediction.text_at(options.null_score_diff_threshold)
    return prediction


def softmax(scores: Sequence[float]) -> list[float]:
    """Returns the probabilities of scores.

    Source: _compute_softmax in run_squad.py.
    """
    highest = max(scores)
    exponentials = [math.exp(score - highest) for score in scores]
    total = sum(exponentials)
    return [exponential / total for exponential in exponentials]
