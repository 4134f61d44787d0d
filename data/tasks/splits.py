"""Draws a dev set from the rows of a train set."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
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
    rows: Iterable[tuple[Sequence[str], str]], share: float, seed: int = _SEED
) -> list[int]:
    """Draws the rows of a dev set, with about the same share of every label.

    Rows of the same text are drawn together, so that no text is in both sets.
    Such a group counts for its rarest label. At least one row of each label
    stays in the train set. The draw follows a hash of the texts, not the order
    of the rows, so the same rows, share and seed always give the same set.

    `rows` are the labels, () = none, and the text of each row. Returns sorted
    places: `share` of all rows, rounded, or a few more or less if there are
    groups or labels with one row. Raises ValueError if there are too few rows.
    """
    labels: list[Sequence[str]] = []
    copies: dict[bytes, list[int]] = {}
    for place, (names, text) in enumerate(rows):
        labels.append(tuple(names) or ("",))
        copies.setdefault(_hash(text, seed), []).append(place)
    left = Counter(name for names in labels for name in names)
    strata = _by_rarest_label(labels, copies, left)
    sizes = np.array([sum(map(len, groups)) for groups in strata.values()], int)
    chosen = []
    for groups, count in zip(
        strata.values(), _counts(sizes, share), strict=True
    ):
        chosen += _draw(groups, int(count), labels, left)
    if not chosen:
        raise ValueError(
            f"a share of {share} for the dev set: {len(labels)} training rows, "
            f"{len(copies)} different texts, {len(strata)} labels; too few to "
            "leave rows of each label for both sets. Give more rows, a larger "
            "share, or a dev file."
        )
    logging.info(
        "The dev set is %d of %d training rows. %d rows have the text of "
        "another row; equal texts are in the same set.",
        len(chosen),
        len(labels),
        len(labels) - len(copies),
    )
    return sorted(chosen)


def _hash(text: str, seed: int) -> bytes:
    """Returns a value that is equal for rows of the same text."""
    return hashlib.blake2b(f"{seed} {text}".encode(), digest_size=16).digest()


def _by_rarest_label(
    labels: Sequence[Sequence[str]],
    copies: dict[bytes, list[int]],
    counts: Counter,
) -> dict[str, list[list[int]]]:
    """Label -> groups of rows of one text, in the order of their hashes."""
    strata: dict[str, list[list[int]]] = {}
    for _, group in sorted(copies.items()):
        names = {name for place in group for name in labels[place]}
        rarest = min(names, key=lambda name: (counts[name], name))
        strata.setdefault(rarest, []).append(group)
    return dict(sorted(strata.items()))


def _counts(sizes: np.ndarray, share: float) -> np.ndarray:
    """The number of rows to draw for each label: largest remainders."""
    exact = share * sizes
    counts = np.floor(exact).astype(int)
    missing = round(share * int(sizes.sum())) - int(counts.sum())
    by_remainder = np.argsort(counts - exact, kind="stable")
    for label in by_remainder[: max(0, missing)]:
        counts[label] += 1
    return counts


def _draw(
    groups: Sequence[Sequence[int]],
    count: int,
    labels: Sequence[Sequence[str]],
    left: Counter,
) -> list[int]:
    """Draws groups of about `count` rows; takes their labels out of `left`."""
    chosen: list[int] = []
    for group in groups:
        lost = Counter(name for place in group for name in labels[place])
        is_near = 2 * len(chosen) + len(group) <= 2 * count
        if is_near and all(left[name] > n for name, n in lost.items()):
            chosen += group
            left.subtract(lost)
    return chosen
