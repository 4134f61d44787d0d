"""Several checkpoints of a run evaluated, one line of a table each."""

import os
from collections.abc import Callable

from absl import logging

from training.finetuning.best_checkpoint import Results, flat
from training.finetuning.finetuner import Finetuning
from training.finetuning.tables import aligned, write_tsv
from training.loop.checkpointing import CheckpointManager


def compare_checkpoints(
    finetuning: Finetuning, which: str, evaluate: Callable[[], Results]
) -> list[list]:
    """Evaluates checkpoints of output_dir: `checkpoints.tsv`, a table.

    The model holds the weights of the last of them then.

    Args:
      finetuning: the model.
      which: `all`, or steps with commas between.
      evaluate: scores the weights that the model holds.

    Returns:
      The rows of the table, the first with the names of the columns.

    Raises:
      ValueError: there is no checkpoint of a step, or there are none.
    """
    rows = []
    for step in _steps(which, finetuning.manager):
        finetuning.restore(step)
        scores = flat(evaluate())
        if not rows:
            rows.append(["step", *scores])
        rows.append([step, *scores.values()])
    output_dir = finetuning.options.train.output_dir
    write_tsv(os.path.join(output_dir, "checkpoints.tsv"), rows)
    logging.info("Checkpoints of %s:\n%s", output_dir, aligned(rows))
    return rows


def _steps(which: str, manager: CheckpointManager) -> list[int]:
    """The steps that are asked for, all of them there."""
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
            "--keep_checkpoint_max says how many a run keeps."
        )
    return asked
