"""Names of metrics in results, and which of two values is better.

Results are set name -> metric -> value.
"""

import math
from collections.abc import Mapping

Results = Mapping[str, Mapping[str, float]]


def goodness(metric: str, value: float) -> float:
    """The value, negated for losses and errors; nan is worse than anything."""
    if math.isnan(value):
        return -math.inf
    return -value if metric.endswith(("loss", "error")) else value


def flat(results: Results) -> dict[str, float]:
    """Results as one table: `METRIC` of the first set, or `SET/METRIC`."""
    return {
        f"{set_name}/{metric}" if number else metric: value
        for number, (set_name, scores) in enumerate(results.items())
        for metric, value in scores.items()
    }
