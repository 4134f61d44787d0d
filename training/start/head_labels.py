"""Compares the labels of a checkpoint's output layer with a task's labels."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from training.start.source import Source

# Transformers writes LABEL_0 if the user gave no names.
_NUMBER = re.compile(r"(?:label|class)?[ _-]?(\d+)", re.IGNORECASE)


class Match(NamedTuple):
    """How the output layer of a checkpoint can be used for a task.

    Attributes:
      rows: for each label of the task, the row of the checkpoint that scores
        it; None = the labels differ, so that the layer cannot be used.
      message: for the user; "" = the labels are the same.
      is_certain: False if the rows have no names, so that their order could
        not be compared.
    """

    rows: tuple[int, ...] | None
    message: str = ""
    is_certain: bool = True


def match(source: Source, labels: Sequence[str]) -> Match:
    """Finds the row of a checkpoint's output layer for each label of a task.

    The names are those of `id2label` in Hugging Face's config.json, or of
    labels.txt beside the original's files. Upper and lower case are the same,
    unless that would make two labels one: MNLI's models say `ENTAILMENT` or
    `entailment`. `labels` are in the order of their ids. Raises ValueError if a
    file beside the weights is damaged.
    """
    source.require()
    path, names = source.folder.labels_file, source.folder.labels
    ours, theirs = ", ".join(labels), ", ".join(names)
    flag = f"--init_checkpoint={source.path}"
    in_order = tuple(range(len(labels)))
    rows = _rows(labels, names)
    if rows == in_order:
        return Match(rows)
    if rows:
        return Match(
            rows,
            f"{flag}: the rows of its output layer are reordered from "
            f"{theirs} ({path}) to the order of the task: {ours}.",
        )
    if not names or _are_numbers(names):
        said = "has no names for the rows of its output layer"
        if names:
            said = (
                "numbers the rows of its output layer instead of naming them: "
                f"{theirs} ({path})"
            )
        return Match(
            in_order,
            f"{flag} {said}; they are assumed to be {ours}, in this order.",
            is_certain=False,
        )
    return Match(
        None,
        f"{flag}: its output layer has the labels {theirs} ({path}), but the "
        f"task has {ours}.",
    )


def _rows(
    labels: Sequence[str], names: Sequence[str]
) -> tuple[int, ...] | None:
    """Returns the place of each label in names; None = the sets differ."""
    for form in (str.strip, lambda name: name.strip().casefold()):
        wanted, found = list(map(form, labels)), list(map(form, names))
        is_one_to_one = len(set(wanted)) == len(wanted)
        if is_one_to_one and sorted(wanted) == sorted(found):
            return tuple(map(found.index, wanted))
    return None


def _are_numbers(names: Sequence[str]) -> bool:
    """Returns whether each name is only the number of its row."""
    numbers = [_NUMBER.fullmatch(name.strip()) for name in names]
    return all(numbers) and [int(n[1]) for n in numbers] == [*range(len(names))]
