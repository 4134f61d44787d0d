"""The start of a run: step 0, its own or another run's checkpoint."""

import json
import zlib

import tensorflow as tf
from absl import logging

from data.storage import files, manifests
from modeling.checkpoints.assign import Variables
from training.config.run_options import TrainOptions
from training.devices.strategy import all_workers, num_workers
from training.loop.checkpointing import CheckpointManager, ResumePoint


def resume(
    manager: CheckpointManager,
    saved: Variables,
    options: TrainOptions,
    start: ResumePoint,
) -> ResumePoint:
    """Loads the run's newest checkpoint, or `continue_from`, if there is one.

    All workers of the strategy, in whose scope it is called, must find the
    same checkpoint. `saved` maps names to variables, optimizer slots included;
    `start` is the beginning of a new run. Raises ValueError if a checkpoint
    was made with another model or optimizer, or the workers find different
    ones.
    """
    before = manager.restore(saved)
    if before.global_step:
        point = _resumed(before, options, start)
    else:
        point = start._replace(global_step=_continue(saved, options))
    _check_workers(point, saved)
    return point


def _resumed(
    before: ResumePoint, options: TrainOptions, start: ResumePoint
) -> ResumePoint:
    """Makes the resume point of a checkpoint; warns of what has changed."""
    check_optimizer(before, options, options.output_dir)
    # It began with its own weights, whatever a later command names.
    origins = ("init_checkpoint", "continue_from") if before.settings else ()
    now = {n: x for n, x in start.settings.items() if n not in origins}
    _compare(before, start._replace(settings=now), options.output_dir)
    step, seen = before.global_step, before.examples_seen
    logging.info("Resuming %s at step %d.", options.output_dir, step)
    prefix = CheckpointManager(options.output_dir).prefix(step)
    if seen is None and not files.exists(f"{prefix}.meta"):
        logging.warning(
            "%s has no .resume.json, and no .meta as the original's have: copy "
            "the .resume.json, too, or changed flags and data go unnoticed.",
            prefix,
        )
    return start._replace(
        global_step=step,
        examples_seen=step * options.train_batch_size if seen is None else seen,
        train_seconds=before.train_seconds,
        is_stripped=before.is_stripped,
        made_from={**before.made_from, **start.made_from},
        settings={**before.settings, **now},
    )


def _compare(before: ResumePoint, start: ResumePoint, folder: str) -> None:
    """Warns if the run goes on with another input or other settings."""
    order, rounding = "another order of the data", "another rounding"
    effects = {"seed": order, "num_examples": order, "arithmetic": rounding}
    for what, effect in effects.items():
        now, was = getattr(start, what), getattr(before, what)
        # The original does not write them.
        if was not in (None, "", now):
            logging.warning(
                "%s is %s now, but was %s before: the run resumes, with %s.",
                *(what, now, was, effect),
            )
    others = {"made_from": "another input", "settings": "other settings"}
    for name, what in others.items():
        was, now = getattr(before, name), getattr(start, name)
        # What one of both does not say is not compared.
        now = {fact: now.get(fact, value) for fact, value in was.items()}
        if changed := manifests.changes(was, now):
            logging.warning(
                "%s was trained with %s up to step %d: %s. To start from its "
                "weights, give --init_checkpoint=%s and another --output_dir.",
                *(folder, what, before.global_step, "; ".join(changed), folder),
            )


def _check_workers(point: ResumePoint, saved: Variables) -> None:
    """Refuses workers that start from different points or weights."""
    strategy = tf.distribute.get_strategy()
    if num_workers(strategy) == 1:
        return
    weights = 0
    for name in sorted(saved):
        weights = zlib.crc32(saved[name].numpy().tobytes(), weights)
    made_from = json.dumps(point.made_from, sort_keys=True)
    values = {
        "checkpoints of different steps": point.global_step,
        "different places in the training input": point.examples_seen,
        "different numbers of training examples": point.num_examples,
        "different weights": weights,
        "different training data": zlib.crc32(made_from.encode()),
    }
    found = all_workers(strategy, [*values.values()]).astype(int)
    for what, numbers in zip(values, found.T, strict=True):
        if len(set(numbers)) > 1:
            raise ValueError(
                f"the workers find {what}: {', '.join(map(str, numbers))} "
                "(worker 0, 1, ...). All must see the same --output_dir and "
                "the same input files; or a file is damaged for some."
            )


def warn_finished(options: TrainOptions, step: int) -> None:
    """Warns that there is nothing to train, and what to change."""
    # Differs from the original: it warns of a finished run, because one line
    # among many in the log is easily missed.
    logging.warning(
        "%s already holds step %d, and %.12g %s are asked for: nothing to "
        "train. To continue, give more by --%s (of a task: "
        "--num_train_epochs); to start again, give another --output_dir.",
        *(options.output_dir, step, *options.end[1:], options.end[0]),
    )


def require_slots(point: ResumePoint, folder: str, flag: str = "") -> None:
    """Raises ValueError for training on from a stripped checkpoint."""
    if point.is_stripped:
        raise ValueError(
            f"{flag}{folder} was finished with --strip_checkpoint, which "
            "removed the optimizer slots, so training cannot go on. Start from "
            f"its weights: --init_checkpoint={folder} and another --output_dir."
        )


def _continue(saved: Variables, options: TrainOptions) -> int:
    """Loads `continue_from`, if given; returns its step."""
    if not (folder := options.continue_from):
        return 0
    point = CheckpointManager(folder).restore(saved)
    if not 0 < point.global_step < options.last_step:
        raise ValueError(
            f"--continue_from={folder} is at step {point.global_step}, and "
            f"training ends at --{options.end[0]}={options.last_step}: it must "
            "hold a checkpoint before the end. Give the steps of all phases."
        )
    check_optimizer(point, options, folder)
    require_slots(point, folder, "--continue_from=")
    logging.info("Continuing %s at step %d.", folder, point.global_step)
    return point.global_step


def check_optimizer(
    point: ResumePoint, options: TrainOptions, folder: str
) -> None:
    """Refuses another optimizer's slots, which have the same names."""
    # Differs from the original: it has one optimizer, so that nothing is mixed.
    before = point.optimizer
    if before != options.optimizer:
        raise ValueError(
            f"--optimizer={options.optimizer}, but the run of {folder} was "
            f"trained with {before}; give --optimizer={before}, or start from "
            f"its weights alone: --init_checkpoint={folder}, new --output_dir."
        )
