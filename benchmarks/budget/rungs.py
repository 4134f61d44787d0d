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


def _ladder() -> Iterator[Rung]:
    """Each rung has the changes of all before."""
    yield Rung(
        name="original_short",
        title="the original's program and recipe, in the ladder's time",
        settings=_ORIGINAL,
        is_original=True,
    )
    settings = _ORIGINAL | {"precision": "auto"}
    yield Rung(
        name="speed",
        title="+ this project's speed, bfloat16 where it is faster",
        settings=settings,
    )
    # The spread tells which differences between rungs mean something.
    for name, num_seeds, flag, value in (
        ("frequencies", 1, "first_weights", "frequencies"),
        ("neighbors", 3, "first_weights", "neighbors"),
        ("no_dropout", 3, "dropout_prob", 0.0),
    ):
        settings = settings | {flag: value}
        yield Rung(
            name=name,
            title=f"+ --{flag}={value}",
            settings=settings,
            num_seeds=num_seeds,
        )


def _beside(name: str, title: str, phases: Any = None, **changes: Any) -> Rung:
    """The last rung with other settings, or in phases."""
    settings = LAST.settings | changes
    own = {"name": name, "title": title, "settings": settings, "num_seeds": 1}
    return dataclasses.replace(LAST, **own, phases=phases or LAST.phases)


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
BESIDE = (
    _beside("dynamic", "new masks in each pass", **_DYNAMIC),
    _beside("batch_64", "batches of 64", train_batch_size=64),
    _beside("rows", "rows of consecutive sentences", records="rows"),
    _beside("joined", "rows of joined documents", records="joined"),
    _beside(
        "separated",
        "rows of joined documents, attention within each",
        records="joined",
        separate_documents=True,
    ),
    _beside("beta_2", "Adam's second beta 0.98", beta_2=0.98),
    _beside("epsilon", "Adam's epsilon 1e-8", epsilon=1e-8),
    # Compiled as the updates that are timed; it would not be for a short run.
    _beside(
        "grouped", "batches of similar length", group_by_length=True, fuse=True
    ),
    _beside(
        "length_64", "length 64 for 80 % of the time", {0.8: _SHORT, 1: {}}
    ),
    _beside(
        "batch_ramp",
        "batches of 16, then 32, then 64",
        {0.33: {"train_batch_size": 16}, 0.67: {}, 1: {"train_batch_size": 64}},
    ),
    _beside(
        "mask_schedule",
        "30 % masked for half of the time, then 15 %",
        {0.5: _MORE_MASKS, 1: {}},
    ),
    _beside(
        "both_schedules",
        "length 64 and 30 % masked for half of the time",
        {0.5: {**_MORE_MASKS, **_SHORT, "max_predictions_per_seq": 20}, 1: {}},
    ),
    dataclasses.replace(
        _beside("stacked", "2 layers for half of the time, then stacked"),
        phases={0.5: {}, 1: {}},
        grows_from=2,
    ),
    dataclasses.replace(
        _beside("average", "the last 5 checkpoints averaged"), average=5
    ),
)
RUNGS = (BASELINE, *RATES, *LADDER, QUARTER, *BESIDE)
