"""Weights of the labels in the training loss, as a user gives them."""

import contextlib
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from absl import logging

from data.tasks.python_rows import label_of
from data.tasks.rows import describe_labels
from data.tasks.task import Task

BALANCED = "balanced"

ClassWeights = tuple[float, ...] | Mapping[str, float] | str


def parse_weights(given: Any) -> ClassWeights:
    """Reads --class_weights, or what Python gives in its place.

    Returns a tuple of numbers in the order of the labels (from a list or text
    with commas), label -> number, or `balanced`.
    """
    if hasattr(given, "to_dict"):  # a pandas.Series has labels
        given = given.to_dict()
    given = given.tolist() if hasattr(given, "tolist") else given
    if given == BALANCED:
        return given
    if isinstance(given, str):
        given = given.split(",") if given else ()
    weights, numbers = None, [math.nan]
    with contextlib.suppress(TypeError, ValueError):
        if isinstance(given, Mapping):
            weights = {label_of(label): float(x) for label, x in given.items()}
            numbers = weights.values()
        elif isinstance(given, list | tuple):
            weights = numbers = tuple(map(float, given))
    if all(0 < number < math.inf for number in numbers):
        return weights
    raise ValueError(
        f"--class_weights={given!r:.60}; it must be numbers above 0, one for "
        f"each label in order, or {BALANCED}; in Python also a dict of labels."
    )


def of_labels(given: ClassWeights, task: Task) -> tuple[float, ...]:
    """Returns and logs the weight of each label; () = equal weights.

    A label that is not a key of a dict has the weight 1. `balanced` weights are
    inversely proportional to the number of examples with the label (for
    tagging, of words) in the train set.

    Source: compute_class_weight of scikit-learn.
    """
    if not given:
        return ()
    if task.kind not in ("classification", "tagging"):
        raise ValueError(
            "--class_weights is for tasks of the kinds classification and "
            f"tagging, not {task.kind}; leave it out."
        )
    weights = given
    if given == BALANCED:
        weights = _balanced(task)
    elif isinstance(given, Mapping):
        if unknown := given.keys() - task.labels:
            raise ValueError(
                f"--class_weights has a weight of {min(unknown)!r}, which is "
                f"not a label; expected {describe_labels(task.labels)}."
            )
        weights = [given.get(label, 1.0) for label in task.labels]
    if len(weights) != len(task.labels):
        raise ValueError(
            f"--class_weights={given!r:.60}; expected {len(task.labels)} "
            f"weights, one for each label: {', '.join(task.labels):.200}."
        )
    pairs = zip(task.labels, weights, strict=True)
    text = ", ".join(f"{label} {weight:.4g}" for label, weight in pairs)
    logging.info("Weights of the labels in the loss: %s", text)
    return tuple(weights)


def _balanced(task: Task) -> list[float]:
    """The weights that make all labels count alike."""
    counts = Counter()
    for example in task.examples(task.train_sets[0]):
        is_tagged = task.kind == "tagging"
        counts.update(example.labels if is_tagged else [example.label])
    if missing := [label for label in task.labels if not counts[label]]:
        raise ValueError(
            f"--class_weights={BALANCED}, but the train set has no example "
            f"of the label {missing[0]!r}; give numbers."
        )
    share = counts.total() / len(task.labels)
    return [share / counts[label] for label in task.labels]
