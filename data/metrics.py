"""Scores of predictions, by scikit-learn, SciPy and seqeval.

An undefined score (no positive example, a constant) is 0, so that it can be
compared with others. The libraries take up to a second to import, so each
function imports its own: `--help` and the preparation of data do not need them.

Axes: N examples, L labels.
"""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from data import tables

# The tables in the log leave out further labels.
_MAX_LABELS = 30
# How labels of entities begin, if they are not O.
_OF_ENTITIES = ("B-", "I-", "E-", "S-")


def compute(
    names: Sequence[str], kind: str, gold: Any, predicted: Any
) -> dict[str, float]:
    """Returns the scores of predictions by their names in `METRICS`.

    Right answers (`gold`) and predictions are ids [N], numbers [N], 0 and 1 [N,
    L], or for tags the labels of each sentence. Raises ValueError if they
    differ in length or are empty. See also `check`.
    """
    if len(gold) != len(predicted) or not len(gold):
        raise ValueError(
            f"{len(predicted)} predictions for {len(gold)} examples, expected "
            "one for each, and at least one."
        )
    return {x: float(METRICS[kind][x](gold, predicted)) for x in names}


def check(names: Sequence[str], kind: str, labels: Sequence[str]) -> None:
    """Refuses metrics that do not fit a task; the error lists those that do."""
    known = list(METRICS.get(kind, ()))
    of_labels = ""
    if kind == "classification" and len(labels) != 2:
        known.remove("f1")
        of_labels = f" with {len(labels)} labels"
    if kind == "tagging" and not _are_entities(labels):
        known.remove("entity_f1")
        of_labels = " with labels other than O, B-x, I-x, E-x and S-x"
    for name in names:
        if name not in known:
            raise ValueError(
                f"--metrics={name}: the metrics of a task of the kind "
                f"{kind}{of_labels} are {', '.join(known)}."
            )


def accuracy(gold: np.ndarray, predicted: np.ndarray) -> float:
    """The share of right answers; for [N, L], of rows without an error."""
    right = np.asarray(gold) == np.asarray(predicted)
    return float(right.reshape(len(right), -1).all(axis=1).mean())


def f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """F1 of class 1; for rows [N, L] of 0 and 1, over all labels together."""
    from sklearn.metrics import f1_score

    gold, predicted = (np.ravel(ids) == 1 for ids in (gold, predicted))
    return float(f1_score(gold, predicted, zero_division=0))


def macro_f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """The mean of the F1 of each label, given ids [N] or 0 and 1 [N, L].

    For ids, the labels are those that occur in gold or predicted.
    """
    gold, predicted = np.asarray(gold), np.asarray(predicted)
    if gold.ndim == 1:
        ids = np.union1d(gold, predicted)
        gold, predicted = gold[:, None] == ids, predicted[:, None] == ids
    return float(np.mean(list(map(f1, gold.T, predicted.T))))


def matthews(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Matthews' correlation of ids [N]: 1 = all right, 0 = chance."""
    from sklearn.metrics import matthews_corrcoef

    if len(np.union1d(gold, predicted)) < 2:
        return 0.0
    return float(matthews_corrcoef(gold, predicted))


def _correlation(name: str, gold: np.ndarray, predicted: np.ndarray) -> float:
    """A correlation of SciPy of numbers [N], 0 if either array is constant."""
    from scipy import stats

    gold, predicted = np.asarray(gold, float), np.asarray(predicted, float)
    if not np.ptp(gold) or not np.ptp(predicted):
        return 0.0
    return float(getattr(stats, name)(gold, predicted).statistic)


pearson = functools.partial(_correlation, "pearsonr")
# Pearson's correlation of ranks; equal numbers share their mean rank.
spearman = functools.partial(_correlation, "spearmanr")


def entity_f1(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> float:
    """F1 of entities; one is right if its span and its type are.

    Source: conlleval, as implemented by seqeval.
    """
    from seqeval.metrics import f1_score

    gold, predicted = _lists(gold), _lists(predicted)
    return float(f1_score(gold, predicted, zero_division=0))


def token_accuracy(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> float:
    """The share of words with the right label."""
    flat = map(itertools.chain.from_iterable, (gold, predicted))
    right = [a == b for a, b in zip(*flat, strict=True)]
    return sum(right) / max(len(right), 1)


def _lists(sentences: Sequence[Sequence[str]]) -> list[list[str]]:
    """Converts sentences to lists of str, which seqeval requires."""
    return [list(map(str, sentence)) for sentence in sentences]


# Kind of task -> name -> metric. `check` has two more rules, on the labels.
METRICS: Mapping[str, Mapping[str, Callable[[Any, Any], float]]] = {
    "classification": {
        "accuracy": accuracy,
        "f1": f1,
        "micro_f1": accuracy,  # the same for one label per example
        "macro_f1": macro_f1,
        "matthews": matthews,
    },
    "regression": {"pearson": pearson, "spearman": spearman},
    "multilabel": {"micro_f1": f1, "macro_f1": macro_f1, "accuracy": accuracy},
    "choice": {"accuracy": accuracy},
    "tagging": {"entity_f1": entity_f1, "token_accuracy": token_accuracy},
}


def for_tags(labels: Sequence[str]) -> tuple[str, ...]:
    """The usual metrics of a tagging task with these labels."""
    if "O" in labels and _are_entities(labels):
        return ("entity_f1", "token_accuracy")
    return ("token_accuracy",)


def _are_entities(labels: Sequence[str]) -> bool:
    return all(x == "O" or x.startswith(_OF_ENTITIES) for x in labels)


def as_text(found: Mapping[str, Any]) -> str:
    """The `details` as tables for the log: confusion, and scores of labels.

    The confusion matrix has a row for each right label.
    """
    labels, made = list(found["by_label"]), []
    shown = labels[:_MAX_LABELS]
    if "confusion_matrix" in found:
        rows = [["gold \\ predicted", *shown]]
        pairs = zip(shown, found["confusion_matrix"], strict=False)
        rows += [[label, *counts[: len(shown)]] for label, counts in pairs]
        made.append(rows)
    rows = [["label", "precision", "recall", "f1", "gold", "predicted"]]
    for label in shown:
        *shares, gold, predicted = found["by_label"][label].values()
        rows.append([label, *(f"{x:.3f}" for x in shares), gold, predicted])
    made.append(rows)
    num_left_out = len(labels) - len(shown)
    note = f"\n... and {num_left_out} more labels" if num_left_out else ""
    return "\n\n".join(tables.aligned(rows) + note for rows in made)


def by_label(
    gold: np.ndarray, predicted: np.ndarray, labels: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Scores each label alone, given ids [N] or 0 and 1 [N, L].

    `labels` are the texts of the first labels, or of all. Returns label ->
    `precision`, `recall` and `f1`, and the numbers of examples, `gold` and
    `predicted`.
    """
    gold, predicted = (columns(x, len(labels)) for x in (gold, predicted))
    counts = (gold & predicted).sum(0), gold.sum(0), predicted.sum(0)
    rows = zip(labels, *(each.tolist() for each in counts), strict=True)
    return {
        label: {
            "precision": right / max(num_predicted, 1),
            "recall": right / max(num_gold, 1),
            "f1": 2 * right / max(num_gold + num_predicted, 1),
            "gold": num_gold,
            "predicted": num_predicted,
        }
        for label, right, num_gold, num_predicted in rows
    }


def roc_auc(
    gold: np.ndarray, probabilities: np.ndarray, labels: Sequence[str]
) -> float | None:
    """The area under the ROC curve; None = there is no such label.

    `gold` are ids [N], or 0 and 1 [N, L]; probabilities [N, L]. If there are
    two labels that exclude each other, it is the area of the second, the
    positive one. Otherwise each label is compared with the rest, and it is the
    mean over all labels which some examples have and others lack.
    """
    from sklearn.metrics import roc_auc_score

    is_binary = np.ndim(gold) == 1 and len(labels) == 2
    gold = columns(gold, len(labels))
    areas = [
        roc_auc_score(gold[:, i], probabilities[:, i])
        for i in range(1 if is_binary else 0, len(labels))
        if 0 < gold[:, i].sum() < len(gold)
    ]
    return float(np.mean(areas)) if areas else None


def details(
    gold: np.ndarray,
    predicted: np.ndarray,
    probabilities: np.ndarray,
    labels: Sequence[str],
) -> dict[str, Any]:
    """Computes a classifier's ROC AUC, scores by label and confusion matrix.

    `gold` and `predicted` are ids [N], or 0 and 1 [N, L]; probabilities [N, L].
    Returns `roc_auc`; `by_label`; and for ids `confusion_matrix`, a row for
    each right label, a column for each predicted one, in the order of `labels`.
    """
    from sklearn.metrics import confusion_matrix

    found = {"roc_auc": roc_auc(gold, probabilities, labels)}
    found["by_label"] = by_label(gold, predicted, labels)
    if np.ndim(gold) == 1:
        found["labels"] = list(labels)
        counts = confusion_matrix(gold, predicted, labels=range(len(labels)))
        found["confusion_matrix"] = counts.tolist()
    return found


def columns(values: np.ndarray, num_labels: int) -> np.ndarray:
    """Returns whether each example has each of the first labels: bool [N, L].

    `values` are ids [N], or 0 and 1 [N, all labels].
    """
    values = np.asarray(values)
    if values.ndim == 1:
        return values[:, None] == np.arange(num_labels)
    return values[:, :num_labels] == 1


def entity_table(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> str:
    """Precision, recall and F1 of each type of entity, as text for the log."""
    from seqeval.metrics import classification_report

    gold, predicted = _lists(gold), _lists(predicted)
    if {*itertools.chain(*gold, *predicted)} <= {"O"}:
        return "no entities"
    return classification_report(gold, predicted, digits=3, zero_division=0)
