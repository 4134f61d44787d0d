"""The checkpoints of a run: written atomically, limited in number, resumed."""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from data.storage import files
from modeling.checkpoints import tf1
from modeling.checkpoints.assign import Variables, compare
from modeling.checkpoints.tf1 import SLOTS, is_weight
from training.loop import resume_point
from training.loop.resume_point import ResumePoint

_NAME = re.compile(r"model\.ckpt-(\d+)\.index")
DATA = ".data-00000-of-00001"
# Checkpoints kept if nothing else is said, as the original's.
_USUAL_NUMBER = 5
_PART = re.compile(r"(model\.ckpt-\d+)\.(data-\d+-of-\d+|resume\.json)")


class CheckpointManager:
    """Writes `model.ckpt-N` into a folder and finds the newest good one.

    Each checkpoint has a file `model.ckpt-N.resume.json`, the resume point,
    with checksums of the index and of itself (the index has those of all
    values). A checkpoint of the original release has none; its step alone is
    resumed.

    Args:
      output_dir: the folder; a checkpoint that is saved creates it.
      keep_max: number of checkpoints to keep; 0 = all, None = 5.
    """

    def __init__(self, output_dir: str, keep_max: int | None = None):
        self._dir = output_dir
        self._keep_max = _USUAL_NUMBER if keep_max is None else keep_max

    def prefix(self, step: int) -> str:
        """The path of a step's checkpoint, without endings."""
        return os.path.join(self._dir, f"model.ckpt-{step}")

    def steps(self) -> list[int]:
        """Steps of the checkpoints in the folder, oldest first."""
        if not files.is_folder(self._dir):
            return []
        matches = map(_NAME.fullmatch, tf.io.gfile.listdir(self._dir))
        return sorted(int(match[1]) for match in matches if match)

    def latest_step(self) -> int | None:
        """Returns the step that `restore` loads if its checkpoint is whole.

        The `checkpoint` file names it, else it is the newest; None = none.
        """
        return max(self._steps_up_to_latest(), default=None)

    def _steps_up_to_latest(self) -> list[int]:
        """Steps up to the one that `restore` loads if it is whole."""
        steps, name = self.steps(), tf1.latest_name(self._dir)
        named = [step for step in steps if name == f"model.ckpt-{step}"]
        return [step for step in steps if step <= (named or steps)[-1]]

    def newest(self) -> ResumePoint:
        """The resume point of the newest good checkpoint; step 0 = none."""
        for step in reversed(self._steps_up_to_latest()):
            with contextlib.suppress(ValueError):  # damaged, as in `restore`
                return resume_point.read(self.prefix(step), step)
        return ResumePoint(0)

    def made_from(self) -> Mapping[str, Any]:
        """Returns `ResumePoint.made_from` of the newest good checkpoint."""
        return self.newest().made_from

    def restore(self, variables: Variables) -> ResumePoint:
        """Loads the newest good checkpoint into variables.

        The `checkpoint` file names the newest one, as in the original; edit
        it to go back to an earlier step. A damaged checkpoint is skipped with
        a warning.

        Returns:
          Its resume point; step 0 = the folder holds no checkpoint.

        Raises:
          ValueError: every checkpoint is damaged, or one does not fit the
            model.
        """
        if not (steps := self._steps_up_to_latest()):
            return ResumePoint(0)
        self._warn_of_others(steps[-1])
        for step in reversed(steps):
            try:
                point = resume_point.read(self.prefix(step), step)
                checkpoint = tf1.Checkpoint(self.prefix(step))
                # Read all variables, to verify their checksums.
                every = ((n, checkpoint.read(n)) for n in checkpoint.shapes)
                values = {n: value for n, value in every if n in variables}
            except ValueError as error:
                logging.warning("%s Trying the checkpoint before it.", error)
                continue
            missing = self._require_fit(checkpoint, variables)
            slots = [name for name in missing if name.endswith(SLOTS)]
            if slots and not point.is_stripped:
                logging.warning(
                    "%s: no optimizer slots of %d variables; they start at 0.",
                    *(checkpoint.prefix, len(slots)),
                )
            for name, value in values.items():
                variables[name].assign(value)
            return point
        raise ValueError(
            f"every checkpoint in {self._dir} is damaged (steps {steps}); "
            "remove them to start again, or give another --output_dir."
        )

    def check(self, variables: Variables) -> None:
        """Raises ValueError if the checkpoint to load has other weights.

        Only the variables' shapes are read. A damaged checkpoint is not an
        error, because `restore` skips it.
        """
        for step in self._steps_up_to_latest()[-1:]:
            try:
                checkpoint = tf1.Checkpoint(self.prefix(step))
            except ValueError:
                continue
            self._require_fit(checkpoint, variables)

    def _require_fit(self, checkpoint, variables) -> list[str]:
        """Refuses another model's checkpoint; returns the missing names."""
        report = compare(checkpoint, variables)
        wrong = [*report.misshapen.values(), *filter(is_weight, report.missing)]
        if wrong:
            raise ValueError(
                f"{self._dir} holds a run of another model: "
                f"{checkpoint.prefix} does not fit ({wrong[0]}). Give another "
                "--output_dir, or the --bert_config_file of that run."
            )
        return report.missing

    def _warn_of_others(self, latest: int) -> None:
        """Warns if the `checkpoint` file passes over steps, or is damaged."""
        name = tf1.latest_name(self._dir)
        if later := [str(step) for step in self.steps() if step > latest]:
            logging.warning(
                "%s: its `checkpoint` file names step %d and passes over %s.",
                *(self._dir, latest, ", ".join(later)),
            )
        elif name not in (None, f"model.ckpt-{latest}"):
            logging.warning(
                "%s: its `checkpoint` file is damaged, or names what is not "
                "there (%s); taking the newest checkpoint.",
                *(self._dir, name or "nothing"),
            )

    def save(self, variables: Variables, point: ResumePoint) -> None:
        """Saves variables and resume point; removes the oldest checkpoint.

        `variables` maps names to variables, optimizer slots included. Raises
        OSError if it cannot be written; earlier checkpoints are intact.
        """
        prefix = self.prefix(point.global_step)
        tensors = {name: v.numpy() for name, v in variables.items()}
        tensors["global_step"] = np.int64(point.global_step)
        with tf1.written(prefix, tensors) as index:
            resume_point.write(prefix, point, index)
        # The run may have gone back to an earlier step. Later checkpoints are
        # neither counted nor removed; they are overwritten at their step.
        steps = [step for step in self.steps() if step <= point.global_step]
        kept = steps[-self._keep_max :] if self._keep_max else steps
        if len(steps) - len(kept) > 1:
            logging.warning(
                "The checkpoints of steps %s, which an earlier command kept, "
                "are removed: --keep_checkpoint_max is %d; 0 keeps all.",
                *(", ".join(map(str, steps[: -len(kept)])), self._keep_max),
            )
        self._keep(kept, steps)

    def keep_only(self, step: int) -> None:
        """Removes all checkpoints except one step's."""
        self._keep([step], self.steps())

    def keep_latest(self) -> None:
        """Removes checkpoints before the latest; those of the original stay."""
        steps, end = self._steps_up_to_latest(), resume_point.ENDING
        own = [step for step in steps if files.exists(self.prefix(step) + end)]
        if others := own[:-1]:
            self._keep(sorted({*steps}.difference(others)), steps)
            logging.info(
                "Removed checkpoints %s; --keep_checkpoint_max=%d keeps them.",
                *(", ".join(map(str, others)), _USUAL_NUMBER),
            )

    def _keep(self, kept: Sequence[int], steps: Sequence[int]) -> None:
        """Removes the checkpoints of all steps but the kept ones."""
        tf1.write_state(self._dir, [f"model.ckpt-{step}" for step in kept])
        for step in sorted(set(steps) - set(kept)):
            # The index is first: a checkpoint without an index does not exist.
            # The original has a `.meta` file, too.
            for ending in (".index", DATA, resume_point.ENDING, ".meta"):
                with contextlib.suppress(tf.errors.NotFoundError):
                    tf.io.gfile.remove(self.prefix(step) + ending)

    def strip(self) -> None:
        """Removes the optimizer slots of all checkpoints of a finished run.

        If one cannot be written (OSError), all are intact.
        """
        for step in self._steps_up_to_latest():
            try:
                _strip(self.prefix(step), step)
            except ValueError as error:  # `restore` skips it, too
                logging.warning("%s Its slots are left.", error)

    def remove_leftovers(self) -> None:
        """Removes files that a killed run left incomplete.

        Call it only when no other run uses the folder.
        """
        names = tf.io.gfile.listdir(self._dir)
        for name in names:
            part = _PART.fullmatch(name)
            # The index is written last and removed first.
            is_alone = part and f"{part[1]}.index" not in names
            if ".incomplete-" in name or is_alone:
                _remove_whole(os.path.join(self._dir, name.rstrip("/")))

    def log_size(self, variables: Variables, saves: int) -> None:
        """Logs what the checkpoints of a run will take on the disk.

        `saves` is how many checkpoints the run writes; 0 = unknown.
        """
        values = variables.values()
        mb = 1e-6 * sum(v.dtype.size * v.shape.num_elements() for v in values)
        # A new checkpoint is complete before the oldest one is removed.
        most = [n for n in (saves, self._keep_max and self._keep_max + 1) if n]
        number = min(most, default=0)
        total = f"{number} at once at most, {number * mb:.1f} MB"
        total = total if number else "and all of them are kept"
        logging.info(
            "Checkpoints in %s: %.1f MB each, %s.", self._dir, mb, total
        )
        needed = max(0, number - len(self.steps())) * mb
        if "://" in self._dir:
            return
        free = 1e-6 * shutil.disk_usage(self._dir).free
        if free < needed:
            logging.warning(
                "%s has %.1f MB left, but the checkpoints need %.1f MB more. "
                "Free some, change --output_dir, lower --keep_checkpoint_max.",
                *(self._dir, free, needed),
            )


def _strip(prefix: str, step: int) -> None:
    """Removes the optimizer slots of a checkpoint that has some."""
    point = resume_point.read(prefix, step)
    if point.is_stripped:
        return
    kept = tf1.Checkpoint(prefix).weights()
    # The index changes twice while a checkpoint is replaced. A record without
    # checksums fits each of them, if the run is killed meanwhile.
    record = json.dumps(point._asdict())
    files.write_text(prefix + resume_point.ENDING, record + "\n")
    tf1.write(prefix, kept | {tf1.GLOBAL_STEP: np.int64(step)})
    point = point._replace(is_stripped=True)
    resume_point.write(prefix, point, f"{prefix}.index")
    size = sum(value.nbytes for value in kept.values()) / 1e6
    logging.info("%s: without slots, %.1f MB are left.", prefix, size)


def _remove_whole(path: str) -> None:
    """Removes a file, a folder, or a symbolic link without its target."""
    if not tf.io.gfile.isdir(path) or os.path.islink(path):
        tf.io.gfile.remove(path)
    elif "://" in path:
        tf.io.gfile.rmtree(path)
    else:
        shutil.rmtree(path)  # tf.io.gfile.rmtree follows links to folders
