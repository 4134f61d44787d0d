"""Draws a dev set from the rows of a train set."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

from absl import logging

from data.tasks.table_files import TableFiles

# Not --seed: all trials of a run, with their seeds, have the same dev set.
_SEED = 12345


def check_share(share: float, files: TableFiles) -> None:
    """Refuses a wrong share, and one beside a file of the dev set."""
    if not 0 < share < 1:
        raise ValueError(
            f"--dev_share={share}; it must be above 0 and below 1, such as 0.1."
        )
    if name := files.beside_train("dev"):
        raise ValueError(
            f"--dev_share={share} draws the dev set from the train set, but "
            f"there is a file of it, {name}; leave out --dev_share, or "
            f"{'--dev_file' if files.names['dev'] else 'rename it'}."
        )


def dev_places(
    rows: Iterable[tuple[Sequence[str], str]], share: float
) -> list[int]:
    """Draws the rows of a dev set by a hash of each row's text.

    `rows` are the labels, () = none, and the text of each row; `share` is the
    probability of a text. Rows of the same text are in the same set. If all
    rows of a label were drawn, the text with the highest hash stays in the
    train set. All other rows stay in their set when rows are added later.

    Returns the places of the rows, sorted; ValueError if none was drawn.
    """
    labels: list[Sequence[str]] = []
    drawn: dict[float, list[int]] = {}  # hash -> rows of one text
    learned: Counter = Counter()
    for place, (names, text) in enumerate(rows):
        labels.append(tuple(names) or ("",))
        if (value := _hash(text)) < share:
            drawn.setdefault(value, []).append(place)
        else:
            learned.update(labels[place])
    for value in sorted(drawn, reverse=True):
        names = [name for place in drawn[value] for name in labels[place]]
        if not all(map(learned.__getitem__, names)):
            learned.update(names)
            del drawn[value]
    chosen = sorted(place for places in drawn.values() for place in places)
    if not chosen:
        raise ValueError(
            f"a share of {share} for the dev set: {len(labels)} training rows, "
            "none can be drawn. Give more rows, a larger share, or a dev file."
        )
    counts = len(chosen), len(labels)
    logging.info("The dev set is %d of %d training rows.", *counts)
    return chosen


def _hash(text: str) -> float:
    """Returns a number from 0 to below 1, the same for the same text."""
    digest = hashlib.blake2b(f"{_SEED} {text}".encode(), digest_size=6).digest()
    return int.from_bytes(digest) / 2**48
