"""Predictions scored: NumPy, and seqeval for entities.

Where a score is not defined (no positive example, a constant), it is 0, so
that a model that has learned nothing has a score to be compared with.

Axes: N examples, L labels.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from data import tables

# Of the tables in the log: labels beyond it are left out.
_MAX_LABELS = 30


def compute(
    names: Sequence[str], gold: Any, predicted: Any
) -> dict[str, float]:
    """Scores predictions.

    Args:
      names: of `METRICS`.
      gold: right answers: ids [N], numbers [N], 0 and 1 [N, L], or for tags
        the labels of each sentence.
      predicted: as many, alike.

    Returns:
      Name -> score.

    Raises:
      ValueError: there is no such metric, or gold and predicted differ in
        their number, or there are none.
    """
    if len(gold) != len(predicted) or not len(gold):
        raise ValueError(
            f"{len(predicted)} predictions for {len(gold)} examples, expected "
            "one for each, and at least one."
        )
    for name in names:
        if name not in METRICS:
            raise ValueError(
                f"metric {name!r}, expected one of {', '.join(METRICS)}."
            )
    return {name: float(METRICS[name](gold, predicted)) for name in names}


def accuracy(gold: np.ndarray, predicted: np.ndarray) -> float:
    """The share of right answers; of rows [N, L], of rows right in full."""
    right = np.asarray(gold) == np.asarray(predicted)
    return float(right.reshape(len(right), -1).all(axis=1).mean())


def f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """F1 of class 1: the harmonic mean of its precision and recall."""
    return _f1(np.asarray(gold) == 1, np.asarray(predicted) == 1)


def micro_f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """F1 over all labels together, [N, L] of 0 and 1."""
    return _f1(np.asarray(gold) == 1, np.asarray(predicted) == 1)


def macro_f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """The mean of the labels' F1.

    Args:
      gold: 0 and 1 [N, L], or ids [N]; of ids, those count that are in gold
        or predicted.
      predicted: alike.
    """
    gold, predicted = np.asarray(gold), np.asarray(predicted)
    if gold.ndim == 1:
        ids = np.union1d(gold, predicted)
        gold, predicted = gold[:, None] == ids, predicted[:, None] == ids
    pairs = zip(gold.T == 1, predicted.T == 1, strict=True)
    return float(np.mean([_f1(*pair) for pair in pairs]))


def _f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """F1 of booleans."""
    return _ratio(2 * (gold & predicted).sum(), gold.sum() + predicted.sum())


def matthews(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Matthews' correlation: 1 = all right, 0 = as chance; of any classes.

    Source: Gorodkin (2004), "Comparing two K-category assignments".
    """
    gold, predicted = np.asarray(gold), np.asarray(predicted)
    ids = np.union1d(gold, predicted)
    # float, because the products outgrow integers.
    gold = (gold[:, None] == ids).astype(float)
    predicted = (predicted[:, None] == ids).astype(float)
    return _correlation(gold, predicted)


def pearson(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Pearson's correlation of numbers."""
    return _correlation(
        np.asarray(gold, float)[:, None], np.asarray(predicted, float)[:, None]
    )


def spearman(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Pearson's correlation of ranks; equal numbers share their mean rank."""
    return pearson(_ranks(np.asarray(gold)), _ranks(np.asarray(predicted)))


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Covariance over standard deviations; columns [N, K] are summed."""
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    scale = np.sqrt((a * a).sum()) * np.sqrt((b * b).sum())
    return _ratio((a * b).sum(), scale)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1: of 3, 5, 5 they are 1, 2.5, 2.5."""
    _, places, counts = np.unique(
        values, return_inverse=True, return_counts=True
    )
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def _ratio(numerator: float, denominator: float) -> float:
    """Their ratio, 0 if it is not defined."""
    return float(numerator / denominator) if denominator else 0.0


def entity_f1(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> float:
    """F1 of entities: right are those whose span and type both are.

    Source: conlleval, by the package seqeval.
    """
    # It takes scikit-learn with it: a second that other tasks do without.
    from seqeval.metrics import f1_score

    gold, predicted = _lists(gold), _lists(predicted)
    return float(f1_score(gold, predicted, zero_division=0))


def token_accuracy(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> float:
    """The share of words with the right label."""
    pairs = list(zip(_flat(gold), _flat(predicted), strict=True))
    return _ratio(sum(a == b for a, b in pairs), len(pairs))


def _flat(sentences: Sequence[Sequence[str]]) -> list[str]:
    return [label for sentence in sentences for label in sentence]


def _lists(sentences: Sequence[Sequence[str]]) -> list[list[str]]:
    """What seqeval takes: no tuples and no arrays."""
    return [list(map(str, sentence)) for sentence in sentences]


METRICS: Mapping[str, Callable[[Any, Any], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
    "micro_f1": micro_f1,
    "macro_f1": macro_f1,
    "entity_f1": entity_f1,
    "token_accuracy": token_accuracy,
}


def for_tags(labels: Sequence[str]) -> tuple[str, ...]:
    """The metrics of a tagging task: F1 where labels are O, B-x and I-x."""
    is_entities = "O" in labels and all(
        label == "O" or label.startswith(("B-", "I-")) for label in labels
    )
    if is_entities:
        return ("entity_f1", "token_accuracy")
    return ("token_accuracy",)


def confusion_matrix(
    gold: np.ndarray, predicted: np.ndarray, num_labels: int
) -> np.ndarray:
    """Counts who was taken for whom.

    Args:
      gold: ids [N].
      predicted: ids [N].
      num_labels: L.

    Returns:
      int64 [L, L]: a row for each right label, a column for each predicted.
    """
    pairs = np.asarray(gold) * num_labels + np.asarray(predicted)
    counts = np.bincount(pairs, minlength=num_labels * num_labels)
    return counts.reshape(num_labels, num_labels)


def confusion_table(
    gold: np.ndarray, predicted: np.ndarray, labels: Sequence[str]
) -> str:
    """The confusion matrix as text for the log."""
    counts = confusion_matrix(gold, predicted, len(labels))
    shown = labels[:_MAX_LABELS]
    lines = [["gold \\ predicted", *shown]]
    for label, row in zip(shown, counts, strict=False):
        lines.append([label, *map(str, row[: len(shown)])])
    return _aligned(lines, len(labels) - len(shown))


def class_table(
    gold: np.ndarray, predicted: np.ndarray, labels: Sequence[str]
) -> str:
    """Precision, recall, F1 of each label as text for the log.

    Args:
      gold: ids [N], or 0 and 1 [N, L].
      predicted: alike.
      labels: their texts.
    """
    gold, predicted = np.asarray(gold), np.asarray(predicted)
    if gold.ndim == 1:
        ids = np.arange(len(labels))
        gold, predicted = gold[:, None] == ids, predicted[:, None] == ids
    lines = [["label", "precision", "recall", "f1", "gold", "predicted"]]
    for i, label in enumerate(labels[:_MAX_LABELS]):
        of_gold, found = gold[:, i] == 1, predicted[:, i] == 1
        right = (of_gold & found).sum()
        lines.append(
            [
                label,
                f"{_ratio(right, found.sum()):.3f}",
                f"{_ratio(right, of_gold.sum()):.3f}",
                f"{_f1(of_gold, found):.3f}",
                str(of_gold.sum()),
                str(found.sum()),
            ]
        )
    return _aligned(lines, len(labels) - len(lines) + 1)


def entity_table(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> str:
    """Precision, recall, F1 of each type of entity as text for the log."""
    from seqeval.metrics import classification_report

    gold, predicted = _lists(gold), _lists(predicted)
    if not any(label != "O" for label in _flat([*gold, *predicted])):
        return "no entities"
    return classification_report(gold, predicted, digits=3, zero_division=0)


def _aligned(lines: Sequence[Sequence[str]], num_left_out: int) -> str:
    """Aligns a table, and says how many labels it leaves out."""
    note = f"\n... and {num_left_out} more labels" if num_left_out else ""
    return tables.aligned(lines) + note
