"""Evaluates several checkpoints of a run: one row of a table for each."""

import os
from collections.abc import Callable

from absl import logging

from data.storage import files
from data.tables import aligned, tsv
from training.finetuning.metric_values import Results, flat
from training.loop.checkpointing import CheckpointManager


def compare_checkpoints(
    which: str,
    evaluate: Callable[[int], Results],
    manager: CheckpointManager,
    output_dir: str,
) -> None:
    """Evaluates checkpoints of a run and writes `checkpoints.tsv`.

    `which` is `all`, or steps separated by commas; `evaluate` loads the
    checkpoint of a step and scores it. Raises ValueError if a checkpoint is
    missing.
    """
    rows = []
    for step in _steps(which, manager):
        scores = flat(evaluate(step))
        if not rows:
            rows.append(["step", *scores])
        rows.append([step, *scores.values()])
    files.write_text(os.path.join(output_dir, "checkpoints.tsv"), tsv(rows))
    logging.info("Checkpoints of %s:\n%s", output_dir, aligned(rows))


def _steps(which: str, manager: CheckpointManager) -> list[int]:
    """The steps that `which` names; refuses those without a checkpoint."""
    there = manager.steps()
    asked = there
    if which != "all":
        asked = sorted({int(step) for step in which.split(",")})
    missing = [step for step in asked if step not in there]
    if missing or not there:
        raise ValueError(
            f"--eval_checkpoints={which}: there is no checkpoint"
            + (f" of step {', '.join(map(str, missing))}" if missing else "")
            + f", only of {', '.join(map(str, there)) or 'none'}; "
            "a finished run keeps the last one, unless --keep_checkpoint_max "
            "says how many."
        )
    return asked
