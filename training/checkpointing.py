"""The checkpoints of a run: saved whole, kept few, resumed exactly."""

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from modeling import checkpoints

_NAME = re.compile(r"model\.ckpt-(\d+)\.index$")


@dataclasses.dataclass(frozen=True)
class ResumePoint:
    """Where a run stands, beyond its weights and slots.

    Attributes:
      global_step: updates made.
      examples_seen: examples taken from the training input.
      seed: the run's seed; with the step it gives every random number.
    """

    global_step: int
    examples_seen: int
    seed: int


class CheckpointManager:
    """Writes `model.ckpt-N` into a folder and finds the newest good one.

    Beside each checkpoint lies `model.ckpt-N.resume.json`, the resume point;
    a checkpoint of the original release has none and is resumed by its step.

    Args:
      output_dir: made if it is not there.
      keep_max: checkpoints kept; 0 = all.

    Raises:
      OSError: the folder cannot be written.
    """

    def __init__(self, output_dir: str, keep_max: int = 5):
        self._dir = output_dir
        self._keep_max = keep_max
        check_writable(output_dir)
        for folder in tf.io.gfile.glob(
            os.path.join(output_dir, "model.ckpt-*.incomplete-*")
        ):
            tf.io.gfile.rmtree(folder)  # left by a killed run

    def steps(self) -> list[int]:
        """Steps of the checkpoints in the folder, oldest first."""
        matches = map(_NAME.search, tf.io.gfile.listdir(self._dir))
        return sorted(int(match[1]) for match in matches if match)

    def restore(
        self, variables: Mapping[str, tf.Variable]
    ) -> tuple[int, dict] | None:
        """Loads the newest good checkpoint into variables.

        The `checkpoint` file says which is the newest, as in the original
        (so editing it goes back in time); a damaged one is passed over, with
        a warning, for the one before.

        Args:
          variables: name -> variable, optimizer slots included.

        Returns:
          Its step and its resume record ({} if the original wrote it), or
          None if the folder holds no checkpoint.

        Raises:
          ValueError: every checkpoint is damaged, or one does not fit the
            model.
        """
        steps = self.steps()
        newest = tf.train.latest_checkpoint(self._dir)
        match = newest and _NAME.search(newest + ".index")
        if match:
            steps = [step for step in steps if step <= int(match[1])]
        for step in reversed(steps):
            prefix = self._prefix(step)
            try:
                checkpoint = checkpoints.Checkpoint(prefix)
                values = {
                    name: checkpoint.read(name)
                    for name in variables
                    if name in checkpoint.shapes
                }
            except ValueError as error:
                logging.warning("%s Trying the checkpoint before it.", error)
                continue
            self._assign(checkpoint, variables, values)
            return step, self._read_resume_record(prefix)
        if steps:
            raise ValueError(
                f"every checkpoint in {self._dir} is damaged (steps {steps}); "
                "remove them to start anew, or give another --output_dir."
            )
        return None

    def save(
        self, variables: Mapping[str, tf.Variable], point: ResumePoint
    ) -> str:
        """Saves variables and resume point; removes the oldest checkpoint.

        Args:
          variables: name -> variable, optimizer slots included.
          point: what exact resumption needs beside them.

        Returns:
          The checkpoint's prefix.

        Raises:
          OSError: it cannot be written; earlier ones are intact.
        """
        prefix = self._prefix(point.global_step)
        tensors = {name: v.numpy() for name, v in variables.items()}
        tensors["global_step"] = np.int64(point.global_step)
        record = json.dumps(dataclasses.asdict(point)) + "\n"
        try:
            with tf.io.gfile.GFile(prefix + ".resume.json", "w") as file:
                file.write(record)
        except tf.errors.OpError as error:
            raise OSError(
                f"cannot write {prefix}.resume.json: {error.message}; check "
                "the folder's permissions and free space."
            ) from error
        checkpoints.write(prefix, tensors)
        steps = self.steps()
        kept = steps[-self._keep_max :] if self._keep_max else steps
        tf.compat.v1.train.update_checkpoint_state(
            self._dir, prefix, [self._prefix(step) for step in kept]
        )
        for step in steps:
            if step not in kept:
                self._remove(step)
        return prefix

    def _assign(self, checkpoint, variables, values):
        report = checkpoints.compare(checkpoint, variables)
        weights_missing = [
            name
            for name in report.missing
            if not name.endswith(("/adam_m", "/adam_v"))
        ]
        if report.misshapen or weights_missing:
            first = [*report.misshapen, *weights_missing][0]
            raise ValueError(
                f"{self._dir} holds a run of another model: "
                f"{checkpoint.prefix} does not fit ({first}). Give another "
                "--output_dir, or the --bert_config_file of that run."
            )
        if report.missing:
            logging.warning(
                "%s has no optimizer slots for %d variables; they start at 0.",
                checkpoint.prefix,
                len(report.missing),
            )
        for name, value in values.items():
            variables[name].assign(value)

    def _read_resume_record(self, prefix: str) -> dict:
        path = prefix + ".resume.json"
        if not tf.io.gfile.exists(path):
            return {}
        with tf.io.gfile.GFile(path, "r") as file:
            return json.loads(file.read())

    def _prefix(self, step: int) -> str:
        return os.path.join(self._dir, f"model.ckpt-{step}")

    def _remove(self, step: int) -> None:
        # The index first: without it the checkpoint does not exist.
        for ending in (
            ".index",
            ".data-00000-of-00001",
            ".resume.json",
            ".meta",  # of the original
        ):
            with contextlib.suppress(tf.errors.NotFoundError):
                tf.io.gfile.remove(self._prefix(step) + ending)


def check_writable(folder: str) -> None:
    """Makes a folder and refuses one that cannot be written.

    Raises:
      OSError: says where and what to check.
    """
    probe = os.path.join(folder, f".writable-{os.getpid()}")
    try:
        tf.io.gfile.makedirs(folder)
        with tf.io.gfile.GFile(probe, "w") as file:
            file.write("")
        tf.io.gfile.remove(probe)
    except (tf.errors.OpError, OSError) as error:
        raise OSError(
            f"--output_dir={folder} cannot be written "
            f"({str(error).splitlines()[0]}); check the path and its "
            "permissions."
        ) from error
