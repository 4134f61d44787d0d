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

from data import files
from modeling import checkpoints

_NAME = re.compile(r"model\.ckpt-(\d+)\.index")


@dataclasses.dataclass(frozen=True)
class ResumePoint:
    """Where a run stands, beyond its weights and slots.

    Attributes:
      global_step: updates made.
      examples_seen: examples taken from the training input.
      seed: the run's seed; with the step it gives every random number.
      num_examples: examples of the training input, to notice another one.
    """

    global_step: int
    examples_seen: int
    seed: int
    num_examples: int


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
        files.check_writable(output_dir)

    def remove_leftovers(self) -> None:
        """Removes what a killed run was writing; only the next run may."""
        for name in tf.io.gfile.listdir(self._dir):
            path = os.path.join(self._dir, name.rstrip("/"))
            if ".incomplete-" not in name:
                continue
            if tf.io.gfile.isdir(path):
                tf.io.gfile.rmtree(path)
            else:
                tf.io.gfile.remove(path)

    def steps(self) -> list[int]:
        """Steps of the checkpoints in the folder, oldest first."""
        matches = map(_NAME.fullmatch, tf.io.gfile.listdir(self._dir))
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
        steps = self._steps_up_to_latest()
        for step in reversed(steps):
            prefix = self.prefix(step)
            try:
                checkpoint = checkpoints.Checkpoint(prefix)
                values = {
                    name: checkpoint.read(name)
                    for name in variables
                    if name in checkpoint.shapes
                }
                record = self._read_resume_record(prefix)
            except ValueError as error:
                logging.warning("%s Trying the checkpoint before it.", error)
                continue
            self._assign(checkpoint, variables, values)
            return step, record
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
        prefix = self.prefix(point.global_step)
        tensors = {name: v.numpy() for name, v in variables.items()}
        tensors["global_step"] = np.int64(point.global_step)
        record = json.dumps(dataclasses.asdict(point)) + "\n"
        files.write_text(prefix + ".resume.json", record)
        checkpoints.write(prefix, tensors)
        # Later ones belong to a run that went back in time; they are neither
        # counted nor removed, but overwritten when their step comes.
        steps = [step for step in self.steps() if step <= point.global_step]
        kept = steps[-self._keep_max :] if self._keep_max else steps
        checkpoints.write_state(
            self._dir, [os.path.basename(self.prefix(step)) for step in kept]
        )
        for step in steps:
            if step not in kept:
                self._remove(step)
        return prefix

    def keep_only(self, step: int) -> None:
        """Removes every checkpoint but that of a step."""
        name = os.path.basename(self.prefix(step))
        checkpoints.write_state(self._dir, [name])
        for other in self.steps():
            if other != step:
                self._remove(other)

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

    def _steps_up_to_latest(self) -> list[int]:
        """Steps up to the one that the `checkpoint` file names."""
        steps = self.steps()
        latest = _NAME.fullmatch(f"{checkpoints.latest_name(self._dir)}.index")
        if not latest or int(latest[1]) not in steps:
            return steps
        later = [step for step in steps if step > int(latest[1])]
        if later:
            logging.warning(
                "%s: its `checkpoint` file names step %s; later ones (%s) are "
                "passed over.",
                self._dir,
                latest[1],
                ", ".join(map(str, later)),
            )
        return [step for step in steps if step not in later]

    def _read_resume_record(self, prefix: str) -> dict:
        path = prefix + ".resume.json"
        if not tf.io.gfile.exists(path):
            return {}
        with tf.io.gfile.GFile(path, "r") as file:
            text = file.read()
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is damaged: {error}.") from None

    def prefix(self, step: int) -> str:
        """Where the checkpoint of a step lies."""
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
                tf.io.gfile.remove(self.prefix(step) + ending)
