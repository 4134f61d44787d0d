"""Where training begins: anew, where this run stopped, or behind another."""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf
from absl import logging

from training.checkpointing import CheckpointManager, ResumePoint
from training.options import TrainOptions
from training.strategy import all_workers


def resume(
    manager: CheckpointManager,
    saved: Mapping[str, tf.Variable],
    options: TrainOptions,
    *,
    num_examples: int,
    strategy: tf.distribute.Strategy,
) -> ResumePoint:
    """Loads the newest checkpoint of the run, or `continue_from`, if any.

    Args:
      manager: of the run's folder.
      saved: name -> variable, optimizer slots included.
      options: of the loop.
      num_examples: of the training input.
      strategy: its workers must all find the same.

    Returns:
      Where the run stands now.

    Raises:
      ValueError: a checkpoint is of another model or optimizer, or the workers
        find different ones.
    """
    start = ResumePoint(0, 0, options.seed, num_examples, options.optimizer)
    step, record = manager.restore(saved) or (0, {})
    steps = all_workers(strategy, [step])[:, 0].astype(int)
    if len(set(steps)) > 1:
        raise ValueError(
            "the workers find checkpoints of different steps in --output_dir: "
            f"{', '.join(map(str, steps))}. It must be a folder that all of "
            "them see; or a checkpoint is damaged for some of them."
        )
    if not step:
        return dataclasses.replace(start, global_step=_continue(saved, options))
    _check_optimizer(record, options, options.output_dir)
    for what in ("seed", "num_examples"):
        now = getattr(start, what)
        before = record.get(what, now)
        if before != now:
            logging.warning(
                "%s is %d now, but was %d before: the run goes on, with "
                "another order of the data.",
                what,
                now,
                before,
            )
    logging.info("Resuming %s at step %d.", options.output_dir, step)
    return dataclasses.replace(
        start,
        global_step=step,
        examples_seen=record.get(
            "examples_seen", step * options.train_batch_size
        ),
        train_seconds=record.get("train_seconds", 0.0),
    )


def tell_finished(options: TrainOptions, step: int) -> None:
    """Says that there is nothing to train, and what to change."""
    # Differs from the original: it passes over a finished run with hardly a
    # word, because of which people wait for nothing.
    logging.warning(
        "%s already holds step %d of --%s=%s: nothing to train. To go on, give "
        "more %s; to begin anew, give another --output_dir.",
        options.output_dir,
        step,
        *options.end,
    )


def _continue(saved: Mapping[str, tf.Variable], options: TrainOptions) -> int:
    """Loads `continue_from`, if given; returns its step."""
    if not options.continue_from:
        return 0
    phase = CheckpointManager(options.continue_from, read_only=True)
    step, record = phase.restore(saved) or (0, {})
    if not 0 < step < options.last_step:
        raise ValueError(
            f"--continue_from={options.continue_from} is at step {step}, and "
            f"training ends at --{options.end[0]}={options.last_step}: it must "
            "hold a checkpoint before the end. Give the steps of all phases "
            "together."
        )
    _check_optimizer(record, options, options.continue_from)
    logging.info(
        "Continuing %s at step %d, with the input from its beginning.",
        options.continue_from,
        step,
    )
    return step


def _check_optimizer(
    record: Mapping, options: TrainOptions, folder: str
) -> None:
    """Refuses slots of another optimizer; they have the same names."""
    before = record.get("optimizer", TrainOptions.optimizer)
    if before != options.optimizer:
        raise ValueError(
            f"--optimizer={options.optimizer}, but the run of {folder} was "
            f"trained with {before}; give --optimizer={before}, or start from "
            f"its weights alone: --init_checkpoint={folder} with another "
            "--output_dir."
        )
