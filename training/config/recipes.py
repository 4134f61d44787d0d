"""--recipe of run_pretraining.py: values for flags that a command leaves out.

A flag that the command gives keeps its value.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from data.settings import Settings, setting

# Recipe -> flag -> value. benchmarks/budget/README.md has their gains.
RECIPES: Mapping[str, Mapping[str, Any]] = {
    "original": {},
    "budget": {
        "first_weights": "neighbors",
        "dropout_prob": 0.0,
        "learning_rate": 5e-4,
        "precision": "auto",
        "short_rows_share": 0.5,
    },
}
_WARMUP_SHARE = 0.1  # share of the updates that warm up


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecipeOptions(Settings):
    """Values for the flags that are not given."""

    recipe: str = setting(
        "original",
        "[new] Defaults of flags. original: the original's. budget: for a "
        "small model and little time: --first_weights=neighbors, no dropout, "
        "rate 5e-4 with 10 % warm-up, bfloat16 where it is faster, and with "
        "--masking=dynamic short rows for half of the training.",
        choices=tuple(RECIPES),
    )


def values(
    recipe: str, *, num_train_steps: int, begins: bool, masks: bool
) -> dict[str, Any]:
    """Returns flag -> value for a recipe's flags that a command leaves out.

    `begins` tells whether training begins with new weights, not with those of a
    checkpoint; `masks` whether it masks the records.
    """
    found = dict(RECIPES[recipe])
    if found:
        warmup = round(_WARMUP_SHARE * num_train_steps)
        found["num_warmup_steps"] = max(1, warmup)
    if not begins:
        found.pop("first_weights", None)
    if not (begins and masks):
        found.pop("short_rows_share", None)
    return found
