"""Draws a dev set from the rows of a train set."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

# Not --seed: all trials of a run, with their seeds, have the same dev set.
_SEED = 12345


def dev_places(
    labels: Sequence[Sequence[str]], share: float, seed: int = _SEED
) -> list[int]:
    """Draws the rows of a dev set, with the same share of every label.

    A row with several labels counts for its rarest one. At least one row of
    each label stays in the train set.

    Args:
      labels: the labels of each row; () = none.
      share: of the rows, above 0 and below 1.
      seed: of the random numbers. The same labels, share and seed always give
        the same rows.

    Returns:
      The places of the rows, sorted; `share` of all rows, rounded, or fewer if
      there are many labels with one row.

    Raises:
      ValueError: there are too few rows for two sets.
    """
    counts = Counter(label for row in labels for label in row)
    groups: dict[str, list[int]] = {}
    for place, row in enumerate(labels):
        rarest = min(row, key=lambda label: (counts[label], label), default="")
        groups.setdefault(rarest, []).append(place)
    groups = dict(sorted(groups.items()))
    sizes = np.array([len(places) for places in groups.values()], int)
    rng = np.random.default_rng(seed)
    chosen = []
    for places, count in zip(
        groups.values(), _counts(sizes, share), strict=True
    ):
        chosen += rng.permutation(places)[:count].tolist()
    if not chosen:
        raise ValueError(
            f"a share of {share} for the dev set: {len(labels)} training rows, "
            f"{len(groups)} labels; too few to leave rows of each label for "
            "both sets. Give more rows, a larger share, or a dev file."
        )
    return sorted(chosen)


def _counts(sizes: np.ndarray, share: float) -> np.ndarray:
    """The number of rows to draw from each group: largest remainders."""
    exact = share * sizes
    counts = np.floor(exact).astype(int)
    missing = round(share * int(sizes.sum())) - int(counts.sum())
    by_remainder = np.argsort(counts - exact, kind="stable")
    for group in by_remainder[: max(0, missing)]:
        counts[group] += 1
    return np.minimum(counts, sizes - 1)
