"""Means and spreads of a study's measures, and signs of differences."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Values(NamedTuple):
    """A measure's values in a row, one for each seed: mean, spread, count.

    `spread` is the standard deviation; None = there is one value only.
    """

    mean: float
    spread: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Values":
        """Returns mean and spread of one value or more."""
        spread = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), spread, len(values))


def sign_agrees(
    ours: Values, base: Values, theirs: float, their_base: float
) -> str:
    """Says whether a difference to the base has the paper's sign.

    Returns `yes` or `no`, with `within the spread` if our difference is at most
    two standard errors, or `one run` if there is no error to compare it with;
    `-` if the paper's difference is 0.
    """
    theirs -= their_base
    difference = ours.mean - base.mean
    if not theirs:
        return "-"
    agrees = "yes" if difference * theirs > 0 else "no"
    if ours.spread is None or base.spread is None:
        return f"{agrees}, one run"
    # Of each mean.
    errors = (x.spread / math.sqrt(x.count) for x in (ours, base))
    if abs(difference) <= 2 * math.hypot(*errors):
        return f"{agrees}, within the spread"
    return agrees
