"""Probabilities and thresholds that are fitted on a dev set.

One temperature T divides the logits of all labels (Guo et al., 2017,
https://arxiv.org/abs/1706.04599): softmax(log(p) / T) or sigmoid(logit(p) / T).

Axes: N examples, L labels.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from data import metrics, tables

# From which probability on a label is given, unless thresholds are fitted.
THRESHOLD = 0.5
KINDS = ("classification", "multilabel")
# The probabilities whose logarithms are finite in float32.
LEAST, MOST = 1e-30, 1 - 2.0**-23
_TEMPERATURES = (0.05, 20.0)
_ABOVE = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Temperature and thresholds for probabilities; the default changes none.

    The `temperature` divides the logits; `thresholds` are L calibrated
    probabilities, () = none are fitted.
    """

    temperature: float = 1.0
    thresholds: tuple[float, ...] = ()

    def __post_init__(self):
        numbers = self.temperature, *self.thresholds
        if self.temperature <= 0 or not np.isfinite(numbers).all():
            raise ValueError(f"temperature and thresholds are {numbers}")

    def probabilities(self, raw: np.ndarray, kind: str) -> np.ndarray:
        """Calibrates float32 [N, L]; with a temperature of 1 they stay."""
        if self.temperature == 1:
            return raw
        from scipy.special import expit, logit, softmax

        raw = np.clip(raw.astype(np.float64), LEAST, MOST)
        if kind == "multilabel":
            found = expit(logit(raw) / self.temperature)
        else:
            found = softmax(np.log(raw) / self.temperature, axis=1)
        return found.astype(np.float32)


def require_labels(kind: str, what: str) -> None:
    """Refuses a flag, `what`, for a model without labels of texts."""
    if kind not in KINDS:
        raise ValueError(
            f"{what} is for one label or several labels of a text, but this "
            f"model is of the kind {kind}; leave it out."
        )


def decide(
    kind: str, probabilities: np.ndarray, thresholds: Sequence[float] = ()
) -> np.ndarray:
    """Returns the answers: ids, or for multilabel 0 and 1 of the same shape.

    Multilabel: the labels above their thresholds. Two classes with thresholds:
    the second (positive) class if it is above its threshold, else the first.
    Otherwise the most probable class, whatever the thresholds.
    """
    if kind == "multilabel":
        least = np.asarray(thresholds or THRESHOLD)
        return (probabilities > least).astype(np.int64)
    if len(thresholds) == 2:
        return (probabilities[:, 1] > thresholds[1]).astype(np.int64)
    return probabilities.argmax(axis=-1)


def log_loss(kind: str, gold: np.ndarray, probabilities: np.ndarray) -> float:
    """The mean negative log-probability of what is right.

    `gold` are ids [N], or for multilabel 0 and 1 [N, L].
    """
    if kind == "multilabel":
        right = np.where(gold == 1, probabilities, 1.0 - probabilities)
    else:
        right = probabilities[np.arange(len(gold)), gold]
    return float(-np.log(np.maximum(right.astype(np.float64), LEAST)).mean())


def fit(kind: str, gold: np.ndarray, raw: np.ndarray) -> Calibration:
    """Fits the temperature by the log loss, the thresholds by each label's F1.

    For `gold` see `log_loss`; `raw` are probabilities, [N, L]. If the loss has
    no minimum, as on a set without an error, the temperature is 1.
    """
    from scipy.optimize import minimize_scalar

    def loss(logarithm):
        tempered = Calibration(float(np.exp(logarithm)))
        return log_loss(kind, gold, tempered.probabilities(raw, kind))

    low, high = np.log(_TEMPERATURES)
    best = minimize_scalar(loss, bounds=(low, high), method="bounded").x
    is_minimum = loss(best) < min(loss(low), loss(high)) - 1e-9
    found = Calibration(float(np.exp(best)) if is_minimum else 1.0)
    columns = metrics.columns(gold, raw.shape[1]).T
    of_labels = found.probabilities(raw, kind).T
    thresholds = tuple(map(_best_for_f1, columns, of_labels))
    return dataclasses.replace(found, thresholds=thresholds)


def _best_for_f1(gold: np.ndarray, probabilities: np.ndarray) -> float:
    """The threshold with the best F1 of one label; of ties, nearest to 0.5."""
    from sklearn.metrics import precision_recall_curve

    if not 0 < gold.sum() < len(gold):
        return THRESHOLD  # nothing to tell apart
    precision, recall, values = precision_recall_curve(gold, probabilities)
    f1 = 2 * precision * recall / np.maximum(precision + recall, LEAST)
    # In the middle between two probabilities, rounding changes no answer. Both
    # are float32, in which answers are compared: see `decide`.
    below = np.concatenate([[0.0], values[:-1]]).astype(np.float32)
    middles = below + (values - below) / 2
    middles = np.where(middles < values, middles, below)
    best = middles[f1[:-1] >= f1[:-1].max() - 1e-12]
    return float(min(best, key=lambda value: abs(value - THRESHOLD)))


def figures(
    kind: str,
    labels: Sequence[str],
    gold: np.ndarray,
    raw: np.ndarray,
    found: Calibration,
) -> dict[str, Any]:
    """Measures a calibration on a set; for the arguments see `fit`.

    Returns `temperature`; `log_loss`, `before` and `after`; `thresholds`, label
    -> `threshold` and `f1` with it; and for ids `answers_above`: coverage and
    accuracy of the answers above each of several probabilities.
    """
    probabilities = found.probabilities(raw, kind)
    given = probabilities > np.asarray(found.thresholds)
    right = metrics.columns(gold, len(labels))
    values = zip(labels, found.thresholds, right.T, given.T, strict=True)
    told = {
        "temperature": found.temperature,
        "log_loss": {
            "before": log_loss(kind, gold, raw),
            "after": log_loss(kind, gold, probabilities),
        },
        "thresholds": {
            label: {"threshold": threshold, "f1": metrics.f1(*pair)}
            for label, threshold, *pair in values
        },
    }
    if kind == "classification":
        answers = decide(kind, probabilities, found.thresholds)
        scores = probabilities[np.arange(len(answers)), answers]
        told["answers_above"] = _answers_above(scores, answers == gold)
    return told


def _answers_above(scores: np.ndarray, is_right: np.ndarray) -> list[dict]:
    """A row for each probability; the accuracy of no answers is None."""
    rows = []
    for above in _ABOVE:
        given = is_right[scores > above]
        row = {"above": above, "coverage": len(given) / len(is_right)}
        row["accuracy"] = float(given.mean()) if len(given) else None
        rows.append(row)
    return rows


def as_text(told: dict[str, Any]) -> str:
    """The `figures` as tables for the log."""
    before, after = told["log_loss"].values()
    lines = [
        f"temperature {told['temperature']:.4f}, log loss {before:.4f} -> "
        f"{after:.4f}"
    ]
    rows = [[label, *x.values()] for label, x in told["thresholds"].items()]
    lines.append(tables.aligned([["label", "threshold", "f1"], *rows]))
    if rows := [[*x.values()] for x in told.get("answers_above", ())]:
        head = ["answer only above", "coverage", "accuracy"]
        lines.append(tables.aligned([head, *rows]))
    return "\n".join(lines)
