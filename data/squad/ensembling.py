"""Averages the answers of several runs."""

from collections.abc import Mapping, Sequence
from typing import Any

NBest = Mapping[str, list[dict[str, Any]]]


def average_nbest(nbests: Sequence[NBest]) -> dict[str, list[dict[str, Any]]]:
    """Averages the n best answers of several runs.

    The probability of a text is the mean over all runs; it is 0 in a run that
    does not list the text. The scores are means over the runs that list it.
    Ties keep the order of the runs. The paper does not describe how its
    ensemble averages.

    Args:
      nbests: content of each run's nbest_predictions.json: id -> answers, each
        with `text`, `probability`, `start_logit` and `end_logit`.

    Returns:
      All texts of each question in the same form, most probable first.

    Raises:
      ValueError: there is no run, or the runs have different questions.
    """
    _check_same_questions(nbests, "nbest_predictions.json")
    return {
        qas_id: _average([nbest[qas_id] for nbest in nbests])
        for qas_id in nbests[0]
    }


def _average(runs: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Averages the answers to a question."""
    of_text: dict[str, list[dict[str, Any]]] = {}
    for answers in runs:
        for answer in answers:
            of_text.setdefault(answer["text"], []).append(answer)
    averaged = []
    for text, answers in of_text.items():
        sums = {
            name: sum(answer[name] for answer in answers)
            for name in ("probability", "start_logit", "end_logit")
        }
        averaged.append(
            {
                "text": text,
                "probability": sums["probability"] / len(runs),
                "start_logit": sums["start_logit"] / len(answers),
                "end_logit": sums["end_logit"] / len(answers),
            }
        )
    return sorted(averaged, key=lambda one: one["probability"], reverse=True)


def average_odds(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Averages the score differences (null_odds.json) of several runs.

    Raises:
      ValueError: there is no run, or the runs have different questions.
    """
    _check_same_questions(runs, "null_odds.json")
    return {
        qas_id: sum(odds[qas_id] for odds in runs) / len(runs)
        for qas_id in runs[0]
    }


def choose_texts(
    nbest: NBest,
    null_odds: Mapping[str, float] | None = None,
    null_score_diff_threshold: float = 0.0,
) -> dict[str, str]:
    """Chooses the answers, as `answers.predict` does.

    Args:
      nbest: id -> answers, best first.
      null_odds: id -> score difference; None = answer every question.
      null_score_diff_threshold: "" is the answer if the difference is larger.

    Returns:
      id -> text.
    """
    if null_odds is None:
        return {qas_id: answers[0]["text"] for qas_id, answers in nbest.items()}
    return {
        qas_id: ""
        if null_odds[qas_id] > null_score_diff_threshold
        else next((one["text"] for one in answers if one["text"]), "")
        for qas_id, answers in nbest.items()
    }


def _check_same_questions(runs: Sequence[Mapping], name: str) -> None:
    if not runs:
        raise ValueError(f"there is no {name} to average; give one or more.")
    for number, run in enumerate(runs[1:], start=2):
        other = run.keys() ^ runs[0].keys()
        if other:
            raise ValueError(
                f"{name} of run 1 and of run {number} differ in "
                f"{len(other)} questions, such as {min(other)!r}; give runs "
                "on the same file."
            )
