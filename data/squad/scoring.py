"""Exact match and F1 of answers, by the rules of SQuAD's own scripts."""

import collections
import re
import string
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from data.squad.predictions import Prediction

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class QuestionScore(NamedTuple):
    """Exact match and F1 of an answer's words, each 0 to 1."""

    exact: float
    f1: float


def normalize_answer(text: str) -> str:
    """Lower-cases; removes ASCII punctuation, articles and extra spaces.

    Source: normalize_answer of the official evaluation scripts.
    """
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def score_answer(
    prediction: str, answers: Sequence[str], version_2: bool = False
) -> QuestionScore:
    """Returns the best exact match and the best F1 over the reference answers.

    "" and no reference answers mean unanswerable. The rules of SQuAD 2.0 ignore
    reference answers that are empty after normalization; if no other is left,
    only an empty prediction is right. F1 of two empty texts is 1; by the rules
    of 1.1 it is 0.

    Source: evaluate-v1.1.py and evaluate-v2.0.py.
    """
    normalized = normalize_answer(prediction)
    gold = [normalize_answer(answer) for answer in answers]
    if version_2:
        gold = [answer for answer in gold if answer] or [""]
    f1s = [_f1(normalized, one, version_2) for one in gold]
    return QuestionScore(float(normalized in gold), max(f1s, default=0.0))


def _f1(prediction: str, answer: str, version_2: bool) -> float:
    """F1 of the words of two normalized texts."""
    if version_2 and not (prediction and answer):
        return float(prediction == answer)
    words, right_words = prediction.split(), answer.split()
    common = collections.Counter(words) & collections.Counter(right_words)
    num_common = sum(common.values())
    if not num_common:
        return 0.0
    precision = num_common / len(words)
    recall = num_common / len(right_words)
    return 2 * precision * recall / (precision + recall)


class Scorer:
    """Sums the scores of questions, by the rules of `score_answer`."""

    def __init__(self, version_2_with_negative: bool = False):
        self._version_2 = version_2_with_negative
        # Of questions with and without an answer, and of all.
        self._scores = {"": [], "HasAns_": [], "NoAns_": []}

    def add(self, prediction: str, answers: Sequence[str]) -> QuestionScore:
        """Adds the score of an answer; returns the score."""
        score = score_answer(prediction, answers, self._version_2)
        self._scores[""].append(score)
        if self._version_2:
            self._scores["HasAns_" if answers else "NoAns_"].append(score)
        return score

    def results(self) -> dict[str, float]:
        """Returns the scores in percent, with the official scripts' names.

        SQuAD 1.1: `exact_match`, `f1` and `total` (number of questions). SQuAD
        2.0: `exact`, `f1` and `total`; the same with the prefixes `HasAns_`
        (answerable) and `NoAns_`, if there are such questions. Empty without
        questions.
        """
        exact, results = "exact" if self._version_2 else "exact_match", {}
        for prefix, scores in self._scores.items():
            if scores:
                exacts, f1s = zip(*scores, strict=True)
                results |= {
                    prefix + exact: 100 * sum(exacts) / len(scores),
                    f"{prefix}f1": 100 * sum(f1s) / len(scores),
                    f"{prefix}total": len(scores),
                }
        return results


def find_best_thresholds(predictions: Sequence[Prediction]) -> dict[str, float]:
    """Finds the null_score_diff_threshold with the best scores of SQuAD 2.0.

    Returns `best_exact` and `best_f1` in percent, and the thresholds that give
    them, `best_exact_thresh` and `best_f1_thresh`: among equal scores, the
    lowest. The right answers of the predictions are known.

    Source: find_best_thresh of evaluate-v2.0.py.
    """
    scores, of_null = [], []
    for prediction in predictions:
        right = prediction.example.answers
        scores.append(score_answer(prediction.best_text, right, True))
        of_null.append(score_answer("", right, True))
    base, gains = np.sum(of_null, axis=0), np.subtract(scores, of_null)
    # A question is answered if its difference is at most the threshold.
    # Differs from the official script: questions with equal differences are
    # answered together, and if no question should be answered, the threshold is
    # below all differences and not 0, because other thresholds do not give the
    # reported score.
    score_diffs = [prediction.score_diff for prediction in predictions]
    thresholds, group = np.unique(score_diffs, return_inverse=True)
    thresholds = [np.nextafter(thresholds[0], -np.inf), *thresholds]
    found = {}
    for i, name in enumerate(QuestionScore._fields):
        sums = base[i] + np.cumsum(np.bincount(group, weights=gains[:, i]))
        sums = [base[i], *sums]
        best = int(np.argmax(sums))
        found[f"best_{name}"] = 100 * float(sums[best]) / len(scores)
        found[f"best_{name}_thresh"] = float(thresholds[best])
    return found
