"""The training loop: saving, evaluation and logging between calls of `steps`.

Keras `fit` is not used, because under a strategy it clips gradients before they
are summed, cannot accumulate them, and does not resume within an epoch.
"""

import functools
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from data.progress import Progress
from data.records.shard import Shard
from modeling.objectives.base import Objective
from training.config.run_options import TrainOptions
from training.devices import preemption
from training.devices.precision import FROZEN
from training.devices.strategy import (
    all_workers,
    distribute,
    kind_of,
    num_workers,
)
from training.devices.workers import WAITS
from training.loop import resuming
from training.loop.checkpointing import CheckpointManager, ResumePoint
from training.loop.events import MetricLog, event_file
from training.loop.schedule import Schedule
from training.loop.steps import TrainSteps


class Trainer:
    """Trains a model under a strategy; use it in the strategy's scope.

    Args:
      model: what is trained.
      options: how to train.
      evaluate: called with the step every `eval_every_steps`, but not at the
        end. It is called again when a run resumes, because the run may have
        been stopped there. True = save and stop training.
      clock: returns seconds; measures num_train_minutes.
    """

    def __init__(
        self,
        model: Objective,
        options: TrainOptions,
        evaluate: Callable[[int], bool | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        if os.environ.get(FROZEN, "").lower() in ("1", "true"):
            raise ValueError(
                f"{FROZEN} is set, with which TensorFlow always computes with "
                "the first weights; unset it to train."
            )
        self._strategy = tf.distribute.get_strategy()
        self._clock, self._options, self._evaluate = clock, options, evaluate
        kept = options.output_dir, options.keep_checkpoint_max
        self._manager = CheckpointManager(*kept)
        self._steps = TrainSteps(model, options)

    def train(
        self,
        make_batches: Callable[[int, Shard], tf.data.Dataset],
        *,
        share: float = 1.0,
        begin: Callable[[], None] = lambda: None,
        **facts: Any,
    ) -> int:
        """Trains to the end, from the newest checkpoint if there is one.

        Args:
          make_batches: takes the number of examples seen before, and a shard;
            returns the shard's rows of the following batches of
            `train_batch_size` examples.
          share: of the training, after which it ends.
          begin: called before the first step, if there is one.
          **facts: fields of `ResumePoint` about the input and the training,
            such as `num_examples`.

        Returns:
          The last step.

        Raises:
          FloatingPointError: loss or gradient became nan or infinite; the
            last checkpoint before that is kept.
          ValueError: the devices refused a step: a record that does not fit,
            or too little memory.
          preemption.Preempted: SIGTERM was received; the step is saved.
          Exception: what `on_step` raised; the step is saved.
        """
        options, saved = self._options, self._steps.saved
        tf.io.gfile.makedirs(options.output_dir)
        self._manager.remove_leftovers()
        beginning = ResumePoint(
            *(0, 0, options.seed),
            optimizer=options.optimizer,
            arithmetic=self._steps.arithmetic,
            **facts,
        )
        point = resuming.resume(self._manager, saved, options, beginning)
        schedule = Schedule(options, point.train_seconds, self._clock, share)
        if schedule.is_over(point.global_step):
            if share == 1:
                resuming.warn_finished(options, point.global_step)
            return point.global_step
        resuming.require_slots(point, options.output_dir)
        begin()
        saves = 0  # unknown
        if not options.num_train_minutes:
            saves = -(-options.last_step // options.save_checkpoints_steps)
        self._manager.log_size(saved, saves)
        batches = functools.partial(make_batches, point.examples_seen)
        iterator = iter(distribute(self._strategy, batches))
        return self._run(iterator, point, schedule)

    def _run(self, iterator, point: ResumePoint, schedule: Schedule) -> int:
        """Trains from a resume point to the end; returns the last step."""
        options, done, log = self._options, False, MetricLog(self._options)
        save = functools.partial(self._manager.save, self._steps.saved)
        with (
            event_file(options.output_dir) as events,
            self._progress(point.global_step) as progress,
            preemption.deferred(),
        ):
            stopped = point.global_step > 0 and self._look(point.global_step)
            while not (done or stopped):
                metrics, seconds, preempted = self._call(
                    iterator, point.global_step, schedule
                )
                self._check_finite(metrics, point.global_step)
                step = point.global_step + len(metrics)
                seen = len(metrics) * options.train_batch_size
                done = schedule.is_over(step)  # reads the clock for `seconds`
                point = point._replace(
                    global_step=step,
                    examples_seen=point.examples_seen + seen,
                    train_seconds=schedule.seconds,
                )
                names = self._steps.metric_names
                figures = log.add(names, metrics, step, seconds, is_last=done)
                progress.advance(len(metrics), figures)
                due = self._is_save_due(step)
                error = log.tell(names, metrics, step)
                if done or preempted or due or error:
                    save(point)
                    events.flush()
                if error:
                    raise error
                if preempted:
                    all_workers(self._strategy, [step])  # all have saved
                    raise preemption.Preempted
                stopped = not done and self._look(step)
                if stopped and not due:
                    save(point)
        return point.global_step

    def _progress(self, step: int) -> Progress:
        options = self._options
        total = None if options.num_train_minutes else options.last_step
        return Progress(
            "training", total=total, initial=step, unit="steps", seconds=20
        )

    def _call(
        self, iterator, step: int, schedule: Schedule
    ) -> tuple[np.ndarray, float, bool]:
        """Makes the updates up to the next save, log point or evaluation.

        Returns the metrics of each update; the duration in seconds; whether
        SIGTERM was received. All workers make the same calls and stop together.
        """
        began = self._clock()
        num_steps = self._next_call(step, schedule)
        metrics = self.run_steps(
            iterator,
            first_step=step + 1,
            num_steps=num_steps,
            positions=schedule.positions(step),
        )
        seconds, preempted = all_workers(
            self._strategy, [self._clock() - began, preemption.requested()]
        ).max(axis=0)
        schedule.seconds_per_step = seconds / num_steps
        return metrics, seconds, bool(preempted)

    def _is_save_due(self, step: int) -> bool:
        """Whether a checkpoint is due after a step."""
        if self._is_look_due(step) and num_workers(self._strategy) > 1:
            # It may take longer than the grace period of SIGTERM until all
            # workers know of the signal.
            return True
        # Differs from the original: none is written at step 0, because it would
        # hold the first weights only.
        return step % self._options.save_checkpoints_steps == 0

    def _is_look_due(self, step: int) -> bool:
        every = self._options.eval_every_steps
        return every > 0 and step % every == 0

    def _look(self, step: int) -> bool:
        """Evaluates if an evaluation is due; True = stop."""
        if not self._is_look_due(step):
            return False
        if num_workers(self._strategy) > 1:
            # The step is saved. `check_preempted` stops all workers at the same
            # batch: if only one stopped, the others would wait for it.
            return bool(self._evaluate(step))
        try:
            with preemption.heeded():
                return bool(self._evaluate(step))
        except preemption.Preempted:
            # `deferred` raises it again after the step is saved.
            return True

    def run_steps(
        self,
        iterator,
        *,
        first_step: int,
        num_steps: int,
        positions: np.ndarray | None = None,
    ) -> np.ndarray:
        """Makes updates in one call into the devices.

        `first_step` counts from 1; `positions` is what `Schedule.positions`
        returns, None = the updates' numbers. Returns float32 [num_steps,
        metrics, 2], each a sum and a weight.
        """
        last = first_step + num_steps - 1
        try:
            with WAITS.on(f"steps {first_step} to {last}"):
                step = tf.constant(first_step, tf.int64)
                count = tf.constant(num_steps, tf.int32)
                return self._steps.run(iterator, step, count, positions).numpy()
        except tf.errors.ResourceExhaustedError as error:
            lines = error.message.splitlines()
            cause = next((line for line in lines if "OOM" in line), lines[0])
            raise ValueError(
                f"step {first_step}: out of memory ({cause}). Raise "
                "--gradient_accumulation_steps, or lower --train_batch_size or "
                "--max_seq_length. docs/gpu.md says what fits a GPU."
            ) from error
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as e:
            raise ValueError(
                f"steps {first_step} to {last}: the training input holds "
                f"something that does not fit the model: {e.message}"
            ) from e

    def _next_call(self, step: int, schedule: Schedule) -> int:
        """Number of steps up to the next save, log point or evaluation."""
        options, most = self._options, 1
        if pace := schedule.seconds_per_step:
            most = max(1, int(kind_of(self._strategy).call_seconds / pace))
        stops = options.save_checkpoints_steps, options.eval_every_steps
        stops = filter(None, (*stops, options.log_steps))
        to_next_stop = min(every - step % every for every in stops)
        most = min(most, options.iterations_per_loop)
        return min(to_next_stop, most, schedule.steps_left(step))

    def _check_finite(self, metrics: np.ndarray, step: int) -> None:
        """Stops at the first step whose loss or gradient is not finite."""
        finite = np.isfinite(metrics).all(axis=(1, 2))
        if finite.all():
            return
        bad = int(np.argmin(finite))
        pairs = zip(self._steps.metric_names, metrics[bad], strict=True)
        names = [name for name, x in pairs if not np.isfinite(x).all()]
        saved = self._manager.latest_step()
        kept = "No checkpoint was written yet"
        if saved:
            kept = f"The last good one is kept: {self._manager.prefix(saved)}"
        raise FloatingPointError(
            f"step {step + bad + 1}: {', '.join(names)} became nan or "
            f"infinite. {kept}. Lower --learning_rate, lengthen the warm-up, "
            "or check the data."
        )
