"""The rungs of the ladder, from the original's recipe to --recipe=budget.

A rung is one way to pretrain. Those of `LADDER` each change one thing of the
rung before; the others each change one thing of the last one.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

Settings = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rung:
    """One way to pretrain; `name` is that of its folder."""

    name: str
    title: str
    # Flags of run_pretraining.py, and four names that are not: `records`
    # (`pairs`, `rows` of consecutive sentences, or rows `joined` over the ends
    # of documents), `warmup` (share of the updates), `beta_2`, `epsilon`.
    settings: Settings
    # Share of the time at which each phase ends -> its changes of the settings.
    phases: Mapping[float, Settings] = dataclasses.field(
        default_factory=lambda: {1.0: {}}
    )
    # Layers in the first of two phases, which are then copied to the others.
    grows_from: int = 0
    # How many of the last checkpoints, a 50th of the run apart, are averaged.
    average: int = 0
    # Whether the original's program is timed; this project's does the updates.
    is_original: bool = False
    share: float = 0.0  # of the minutes of `BASELINE`; 0 = those of the ladder
    num_seeds: int = 1


# The original's program: the defaults of its flags, and its README's examples.
_ORIGINAL = {
    "records": "pairs",
    "masking": "static",
    "max_seq_length": 128,
    "max_predictions_per_seq": 20,
    "train_batch_size": 32,
    "warmup": 0.1,
    "learning_rate": 5e-4,
}
_CHANGES = (
    (
        "speed",
        "this project's speed, bfloat16 where it is faster",
        {"precision": "auto"},
    ),
    (
        "frequencies",
        "--first_weights=frequencies",
        {"first_weights": "frequencies"},
    ),
    ("neighbors", "--first_weights=neighbors", {"first_weights": "neighbors"}),
    ("no_dropout", "no dropout", {"dropout_prob": 0.0}),
)
_SEEDS_OF_LAST = 3


def _ladder() -> Iterator[Rung]:
    """Each rung has the changes of all before."""
    settings = dict(_ORIGINAL)
    yield Rung(
        name="original_short",
        title="the original's program and recipe, in the ladder's time",
        settings=settings,
        is_original=True,
    )
    for number, (name, title, changes) in enumerate(_CHANGES, start=1):
        settings = settings | changes
        # The spread tells which differences between rungs mean something.
        has_seeds = number > len(_CHANGES) - 2
        yield Rung(
            name=name,
            title=f"+ {title}",
            settings=settings,
            num_seeds=_SEEDS_OF_LAST if has_seeds else 1,
        )


_SHORT = {
    "max_seq_length": 64,
    "max_predictions_per_seq": 10,
    "train_batch_size": 64,
}
_DYNAMIC = {"masking": "dynamic"}
_MORE_MASKS = {
    **_DYNAMIC,
    "masked_lm_prob": 0.3,
    "max_predictions_per_seq": 40,
}
# Name, title, changes of the settings.
_OTHERS = (
    ("dynamic", "new masks in each pass", _DYNAMIC),
    ("batch_64", "batches of 64", {"train_batch_size": 64}),
    ("rows", "rows of consecutive sentences", {"records": "rows"}),
    ("joined", "rows of joined documents", {"records": "joined"}),
    (
        "separated",
        "rows of joined documents, attention within each",
        {"records": "joined", "separate_documents": True},
    ),
    ("beta_2", "Adam's second beta 0.98", {"beta_2": 0.98}),
    ("epsilon", "Adam's epsilon 1e-8", {"epsilon": 1e-8}),
    # Compiled as the updates that are timed; it would not be for a short run.
    (
        "grouped",
        "batches of similar length",
        {"group_by_length": True, "fuse": True},
    ),
)
# Name, title, phases.
_PHASES = (
    ("length_64", "length 64 for 80 % of the time", {0.8: _SHORT, 1: {}}),
    (
        "batch_ramp",
        "batches of 16, then 32, then 64",
        {0.33: {"train_batch_size": 16}, 0.67: {}, 1: {"train_batch_size": 64}},
    ),
    (
        "mask_schedule",
        "30 % masked for half of the time, then 15 %",
        {0.5: _MORE_MASKS, 1: {}},
    ),
    (
        "both_schedules",
        "length 64 and 30 % masked for half of the time",
        {0.5: {**_MORE_MASKS, **_SHORT, "max_predictions_per_seq": 20}, 1: {}},
    ),
)


def _beside(last: Rung) -> Iterator[Rung]:
    """What was tried with the last rung."""
    last = dataclasses.replace(last, num_seeds=1)
    for name, title, changes in _OTHERS:
        settings = last.settings | changes
        yield dataclasses.replace(
            last, name=name, title=title, settings=settings
        )
    for name, title, phases in _PHASES:
        yield dataclasses.replace(last, name=name, title=title, phases=phases)
    yield dataclasses.replace(
        last,
        name="stacked",
        title="2 layers for half of the time, then stacked",
        phases={0.5: {}, 1: {}},
        grows_from=2,
    )
    yield dataclasses.replace(
        last, name="average", title="the last 5 checkpoints averaged", average=5
    )


BASELINE = Rung(
    name="original",
    title="the original's program and recipe",
    settings=_ORIGINAL,
    is_original=True,
    share=1.0,
)
# The original's recipe at other rates, and at its own for comparison.
RATES = tuple(
    Rung(
        name=f"rate_{rate:.0e}",
        title=f"the original's in a third of the time, rate {rate:.0e}",
        settings=_ORIGINAL | {"learning_rate": rate},
        is_original=True,
        share=1 / 3,
    )
    for rate in (1e-4, 3e-4, 5e-4, 1e-3)
)
LADDER = tuple(_ladder())
LAST = LADDER[-1]
QUARTER = dataclasses.replace(
    LAST,
    name="quarter",
    title="all of these, in a quarter of the original's time",
    num_seeds=1,
    share=0.25,
)
RUNGS = (BASELINE, *RATES, *LADDER, QUARTER, *_beside(LAST))
