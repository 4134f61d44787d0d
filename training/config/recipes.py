"""--recipe of run_pretraining.py: values for flags that a command leaves out.

A flag that the command gives keeps its value.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from absl import logging

from data.pretraining.text_facts import read_facts
from data.settings import Settings, setting

# Recipe -> flag -> value. benchmarks/budget/README.md has their gains.
RECIPES: Mapping[str, Mapping[str, Any]] = {
    "original": {},
    "budget": {
        "first_weights": "neighbors",
        "dropout_prob": 0.0,
        "learning_rate": 5e-4,  # of a hidden size of 256
        "precision": "auto",
        "short_rows_share": 0.5,
    },
}
_MUON = 4  # times the rate of Adam in a short run
# A run of as many updates, or minutes, learns more at twice the rate, which a
# shorter warm-up does not bear. Measured with short rows at a size of 256.
_LONG, _LONG_MINUTES = 600, 15
_WARMUP_SHARE = 0.1  # share of the updates that warm up


class Sizes(NamedTuple):
    """A model, its vocabulary and its batches.

    Attributes:
      num_hidden_layers: of the model.
      hidden_size: of the model.
      vocab_size: wordpieces of a vocabulary learned from the text.
      train_batch_size: rows of 128 in a batch.
      updates_per_minute: on 2 cores with AVX-512 and bfloat16.
    """

    num_hidden_layers: int
    hidden_size: int
    vocab_size: int
    train_batch_size: int
    updates_per_minute: int

    def __str__(self):
        return (
            f"{self.num_hidden_layers} layers x {self.hidden_size}, batches of "
            f"{self.train_batch_size}, {self.vocab_size:,} wordpieces"
        )


_TINY = Sizes(2, 128, 8000, 32, 740)
_MINI = Sizes(4, 256, 8000, 32, 166)
# Minutes on such cores, wordpieces of text -> the sizes that were best among
# those of "Sizes" in benchmarks/budget/README.md.
BEST = {
    (1, 240_000): _TINY,
    (5, 240_000): _TINY,
    (15, 240_000): _MINI,
    (60, 240_000): _MINI,
    (5, 1_200_000): _TINY,
    (15, 1_200_000): _TINY,
    (60, 1_200_000): _TINY,
    (5, 4_800_000): _TINY,
    (15, 4_800_000): _TINY,
    (60, 4_800_000): _TINY,
}


class RecipeOptions(Settings):
    """Values for the flags that are not given."""

    recipe: str = setting(
        "original",
        "[new] Defaults of flags. original: the original's. budget: for a "
        "small model and little time: --first_weights=neighbors, no dropout, "
        "rate 5e-4 x 256 / hidden size (four times that with --optimizer=muon) "
        "with 10 % warm-up, bfloat16 where it is faster, and with "
        "--masking=dynamic short rows for half of the training, and rate 1e-3 "
        "for a size of 256 from 600 updates or 15 minutes on.",
        choices=tuple(RECIPES),
    )


def values(
    recipe: str,
    *,
    num_train_steps: int,
    num_train_minutes: float,
    begins: bool,
    masks: bool,
    hidden_size: int | None,
    optimizer: str,
) -> dict[str, Any]:
    """Returns flag -> value for a recipe's flags that a command leaves out.

    `recipe` is not `original`, which has none. `begins` tells whether training
    begins with new weights, not with those of a checkpoint; `masks` whether it
    masks the records. `hidden_size` is the model's, None = unknown;
    `num_train_minutes` 0 = the steps are the limit.
    """
    found = dict(RECIPES[recipe])
    found["num_warmup_steps"] = max(1, round(_WARMUP_SHARE * num_train_steps))
    width = hidden_size or 256
    found["learning_rate"] *= 256 / width
    is_long = num_train_steps >= _LONG
    if num_train_minutes:
        is_long = num_train_minutes >= _LONG_MINUTES
    if optimizer == "muon":
        found["learning_rate"] *= _MUON
    elif is_long and masks and width == 256:
        found["learning_rate"] *= 2
    if not begins:
        found.pop("first_weights", None)
    if not (begins and masks):
        found.pop("short_rows_share", None)
    return found


def best_sizes(minutes: float, wordpieces: int) -> Sizes:
    """Returns what was best for the nearest time and text, by their ratios."""
    return BEST[_nearest(minutes, wordpieces)]


def _nearest(minutes: float, wordpieces: int) -> tuple[int, int]:
    asked = [math.log(minutes), math.log(wordpieces)]
    return min(BEST, key=lambda x: math.dist(map(math.log, x), asked))


def log_best_sizes(minutes: float, patterns: str | None) -> None:
    """Says which sizes fit the minutes and the text of records, if known."""
    if not (minutes and patterns):
        return
    _, wordpieces = read_facts(patterns)
    if wordpieces:
        measured = _nearest(minutes, wordpieces)
        logging.info(
            "%s came out best for %d minutes on 2 cores and %s wordpieces, the "
            "nearest to %g and %s that was measured (docs/recipes.md#sizes).",
            *(BEST[measured], measured[0], f"{measured[1]:,}"),
            *(minutes, f"{wordpieces:,}"),
        )
