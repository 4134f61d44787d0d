"""TensorBoard events, evaluation results, figures of a progress line."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from data.records import tfrecord
from data.storage import files
from modeling import losses
from training.config.run_options import TrainOptions


class MetricLog:
    """Averages metrics between log points; writes the TensorBoard events."""

    def __init__(self, options: TrainOptions):
        self._options = options
        self._sums = self._steps = self._seconds = 0

    def add(
        self,
        names: Sequence[str],
        metrics: np.ndarray,
        step: int,
        seconds: float,
        *,
        is_last: bool,
    ) -> str:
        """Adds one call's metrics; returns averages since the last log point.

        `metrics` is float32 [steps, metrics, 2], each a sum and a weight, named
        by `names` with `learning_rate` last. `is_last` makes it a log point.
        """
        self._sums = self._sums + metrics.sum(axis=0, dtype=np.float64)
        self._steps += len(metrics)
        self._seconds += seconds
        values = dict(zip(names, map(losses.mean, self._sums), strict=True))
        values["learning_rate"] = float(metrics[-1, -1, 0])
        rate = self._steps / self._seconds
        values["examples/sec"] = rate * self._options.train_batch_size
        shown = ["loss"] + [n for n in values if n.endswith("accuracy")]
        figures = [f"{n}={values[n]:.4g}" for n in [*shown, "examples/sec"]]
        figures.append(f"means of {self._steps} steps")
        if is_last or step % self._options.log_steps == 0:
            for name, value in (values | {"global_step/sec": rate}).items():
                tf.summary.scalar(name, value, step=step)
            self._sums = self._steps = self._seconds = 0
        return ", ".join(figures)

    def tell(
        self, names: Sequence[str], metrics: np.ndarray, last_step: int
    ) -> BaseException | None:
        """Calls `on_step` for each step of a call; see `add`.

        Returns what it raised, with a note for the user.
        """
        if not (on_step := self._options.on_step):
            return None
        for step, row in enumerate(metrics, last_step - len(metrics) + 1):
            values = dict(zip(names, map(losses.mean, row), strict=True))
            try:
                on_step(step, values)
            # KeyboardInterrupt too: a notebook's stop loses no step.
            except BaseException as error:  # noqa: BLE001, it is raised later
                error.add_note(
                    f"on_step raised this at step {step}. Step {last_step} is "
                    f"saved in {self._options.output_dir}: the same call "
                    "resumes there."
                )
                return error
        return None


# Both are the original's, and hardly differ.
_LOSSES = {
    "eval_loss": "the mean over all examples",
    "loss": "the mean of the means of the batches",
}


def write_scalars(folder: str, values: Mapping[str, float], step: int) -> None:
    """Adds one TensorBoard point for each value to a folder's events."""
    # Differs from the original: the points hold tensors, not `simple_value`,
    # because TensorFlow 2 writes them so.
    tf.io.gfile.makedirs(folder)
    with event_file(folder, f".{os.getpid()}.{step}"):
        for name, value in values.items():
            tf.summary.scalar(name, value, step=step)


def read_points(folder: str) -> dict[str, dict[int, float]]:
    """Returns tag -> {step: value} of the event files in a folder.

    If a step was written twice, by a resumed run, the last value counts.
    """
    paths = files.find_in(folder, "events.out.tfevents.*")
    # The last may be written to now.
    records = (x for path in paths for x in tfrecord.whole_records(path))
    events = map(tf.compat.v1.Event.FromString, records)
    points = {}
    # By time, not by name: names of one second end in a count, and 10 < 9.
    for event in sorted(events, key=lambda event: event.wall_time):
        for value in event.summary.value:
            number = np.float32(value.simple_value)  # the original's
            if value.HasField("tensor"):
                number = tf.make_ndarray(value.tensor)
            if number.dtype.kind == "f":  # not text
                points.setdefault(value.tag, {})[event.step] = float(number)
    return points


def write_eval_results(
    output_dir: str, metrics: Mapping[str, float], step: int, name: str = "eval"
) -> None:
    """Writes `NAME_results.txt` and a TensorBoard point; logs them.

    `step` is the checkpoint's; `name` names the evaluated data, and the folder
    of its events.
    """
    # As the original; a format prints a float32 as the float64 of its value.
    results = {key: str(np.float32(value)) for key, value in metrics.items()}
    results["global_step"] = step
    lines = [f"{key} = {results[key]}" for key in sorted(results)]
    write_scalars(os.path.join(output_dir, name), metrics, step)
    path = os.path.join(output_dir, f"{name}_results.txt")
    files.write_text(path, "\n".join(lines) + "\n")
    said = {f"{k} = {results.get(k)}": f" ({v})" for k, v in _LOSSES.items()}
    if "eval_loss" in results:
        lines = [line + said.get(line, "") for line in lines]
    logging.info("***** Eval results *****\n  %s", "\n  ".join(lines))


def read_eval_results(path: str) -> dict[str, float]:
    """Reads a file that `write_eval_results` has written.

    Returns name -> value; `global_step` is among them. Raises FileNotFoundError
    if the file is missing, and ValueError for a line not `NAME = NUMBER`.
    """
    results, line = {}, ""
    try:
        for line in files.read_lines(path):
            name, _, value = line.partition(" = ")
            results[name] = float(value)
    except ValueError:
        raise ValueError(
            f"{path} is damaged: {line!r:.60}, expected NAME = NUMBER; "
            "evaluate again, which writes it again."
        ) from None
    return results


@contextlib.contextmanager
def event_file(
    folder: str, suffix: str | None = None
) -> Iterator[tf.summary.SummaryWriter]:
    """Opens a new default writer of TensorBoard points for a block.

    `suffix` ends the file's name; None = TensorFlow's default. Raises OSError
    if the file cannot be written or the disk is full.
    """
    try:
        writer = tf.summary.create_file_writer(folder, filename_suffix=suffix)
        with writer.as_default():
            yield writer
        writer.close()
    except tf.errors.OpError as error:
        if "events.out.tfevents" not in error.message:
            raise
        raise OSError(
            f"cannot write TensorBoard's points to {folder}: "
            f"{error.message.splitlines()[0]}. Checkpoints are intact; check "
            "the folder's permissions and free space."
        ) from error
