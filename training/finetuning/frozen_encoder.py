"""Checks of training on a frozen encoder, and of the head of a folder."""

import os

from absl import logging

from data.storage import files
from data.storage.json_files import read_json, write_json
from modeling.checkpoints.model_folder import HEAD
from training.config.options import TrainOptions
from training.loop.checkpointing import CheckpointManager

_DEFAULT = {"feature_based": "", "head": "linear"}
# A BiLSTM does not learn with the smaller rates of fine-tuning.
LEAST_RATE = 1e-4


def check_start(
    options: TrainOptions,
    feature_based: str,
    *,
    init_checkpoint: str | None,
    manager: CheckpointManager,
) -> None:
    """Refuses to train on random features; warns of a rate of fine-tuning.

    Args:
      options: of the training.
      feature_based: see `TaskModel`.
      init_checkpoint: weights to start from, or None.
      manager: of the run's checkpoints.

    Raises:
      ValueError: there are no weights for the encoder.
    """
    if not feature_based:
        return
    require_weights(feature_based, init_checkpoint, manager)
    if options.learning_rate < LEAST_RATE:
        logging.warning(
            "--learning_rate=%g is a rate of fine-tuning; a head trained from "
            "scratch on a frozen encoder wants 1e-3 to 3e-3.",
            options.learning_rate,
        )


def require_weights(
    feature_based: str,
    init_checkpoint: str | None,
    manager: CheckpointManager,
) -> None:
    """Refuses to train on the features of a random encoder.

    Args:
      feature_based: see `TaskModel`.
      init_checkpoint: weights to start from, or None.
      manager: of the run's checkpoints.

    Raises:
      ValueError: there are no weights for the encoder.
    """
    if feature_based and not init_checkpoint and not manager.steps():
        raise ValueError(
            f"--feature_based={feature_based} never trains the encoder, which "
            "would stay random; give --init_checkpoint."
        )


def check_head(
    output_dir: str, feature_based: str, head: str, manager: CheckpointManager
) -> None:
    """Refuses a folder with a run of another head.

    Most mixes of layers have the same variables, so that a checkpoint of
    another mix would be loaded without an error.

    Args:
      output_dir: the run's folder.
      feature_based: see `TaskModel`.
      head: see `TaskModel`.
      manager: of the folder's checkpoints.

    Raises:
      ValueError: the folder holds a run with another head.
    """
    now = {"feature_based": feature_based, "head": head}
    before = _read_head(output_dir)
    if manager.steps() and before != now:
        changed = [
            f"--{name} {before[name]!r} -> {value!r}"
            for name, value in now.items()
            if before[name] != value
        ]
        raise ValueError(
            f"{output_dir} holds a run of another model: {', '.join(changed)}. "
            "Give another --output_dir, or the flags of that run."
        )


def _read_head(output_dir: str) -> dict:
    """The head of the run in a folder."""
    path = os.path.join(output_dir, HEAD)
    if not files.exists(path):
        return _DEFAULT
    return read_json(path, tuple(_DEFAULT), f"it should hold {_DEFAULT}")


def keep_head(
    output_dir: str, feature_based: str, head: str, manager: CheckpointManager
) -> None:
    """Writes the head's file beside the checkpoints, or compares it.

    Args:
      output_dir: see `check_head`.
      feature_based: see `check_head`.
      head: see `check_head`.
      manager: see `check_head`.

    Raises:
      ValueError: see `check_head`.
    """
    check_head(output_dir, feature_based, head, manager)
    path = os.path.join(output_dir, HEAD)
    now = {"feature_based": feature_based, "head": head}
    if now != _DEFAULT:
        write_json(path, now)
    elif _read_head(output_dir) != now:
        files.remove(path)
