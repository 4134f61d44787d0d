"""The training loop: steps on the devices, everything else between them.

Not Keras `fit`: under a strategy it clips before the sum, cannot accumulate,
and does not resume within an epoch. The arithmetic is in `steps`.
"""

import dataclasses
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from data.progress import Progress
from data.records.shard import Shard
from training.config.options import TrainOptions
from training.devices import preemption
from training.devices.strategy import (
    all_workers,
    check_batch_size,
    distribute,
    is_tpu,
    num_workers,
)
from training.loop import resuming
from training.loop.checkpointing import CheckpointManager, ResumePoint
from training.loop.events import MetricLog, event_file
from training.loop.model import Model
from training.loop.schedule import Schedule
from training.loop.steps import TrainSteps

# Off a TPU, a call into the device lasts about this long, so that progress
# shows and ^C is heard; the results do not depend on it.
_CALL_SECONDS = 1.0


class Trainer:
    """Trains a model under a strategy; create it in the strategy's scope.

    Args:
      model: see `Model`.
      options: how to train.
      clock: seconds, from any zero; what num_train_minutes is counted by.

    Raises:
      ValueError: the batch cannot be cut into equal parts.
    """

    def __init__(
        self,
        model: Model,
        options: TrainOptions,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._strategy = tf.distribute.get_strategy()
        self._clock = clock
        check_batch_size(
            "train_batch_size",
            options.train_batch_size,
            self._strategy.num_replicas_in_sync
            * options.gradient_accumulation_steps,
        )
        self._options = options
        self._steps = TrainSteps(model, options)
        self._steps_per_call = 1  # until their duration is known

    @property
    def weights(self) -> dict[str, tf.Variable]:
        """Full name -> variable."""
        return self._steps.weights

    @property
    def metric_names(self) -> list[str]:
        """Of a step's metrics, in order; known after one step."""
        return self._steps.metric_names

    def train(
        self,
        make_batches: Callable[[int, Shard], tf.data.Dataset],
        manager: CheckpointManager,
        *,
        num_examples: int,
        evaluate: Callable[[int], bool | None] | None = None,
    ) -> int:
        """Trains to the end, from the newest checkpoint if any.

        Args:
          make_batches: from the number of examples seen before, and a
            shard, to its rows of the batches after them, `train_batch_size`
            examples each.
          manager: of the folder that is resumed from and saved to.
          num_examples: examples of the whole input.
          evaluate: called with the step every `eval_every_steps`, not at
            the end, and once more where a run resumes, in case that it was
            stopped then; True = stop here, with a checkpoint.

        Returns:
          The last step.

        Raises:
          FloatingPointError: loss or gradient became nan or infinite; the
            last checkpoint before that is kept.
          ValueError: the devices refused a step: a record that does not fit,
            or too little memory.
          preemption.Preempted: SIGTERM came; its step is saved.
        """
        options, saved = self._options, self._steps.saved
        manager.remove_leftovers()
        point = resuming.resume(
            manager,
            saved,
            options,
            num_examples=num_examples,
            strategy=self._strategy,
            arithmetic=self._steps.arithmetic,
        )
        schedule = Schedule(
            options,
            seconds=point.train_seconds,
            clock=self._clock,
            strategy=self._strategy,
        )
        done = schedule.is_over(point.global_step)
        if done:
            resuming.tell_finished(options, point.global_step)
            return point.global_step
        seen = point.examples_seen
        iterator = iter(
            distribute(self._strategy, lambda shard: make_batches(seen, shard))
        )
        with (
            event_file(options.output_dir) as events,
            self._progress(point.global_step) as progress,
            preemption.deferred(),
        ):
            log = MetricLog(options)
            stopped = point.global_step > 0 and self._look(evaluate, point)
            while not (done or stopped):
                metrics, seconds, preempted = self._call(
                    iterator, point.global_step, schedule
                )
                self._check_finite(metrics, point.global_step, manager)
                step = point.global_step + len(metrics)
                done = schedule.is_over(step)
                point = _after(point, step, options, schedule)
                figures = log.add(
                    self.metric_names, metrics, step, seconds, is_last=done
                )
                progress.advance(len(metrics), figures)
                due = self._is_save_due(step)
                if done or preempted or due:
                    manager.save(saved, point)
                    events.flush()
                if preempted:
                    all_workers(self._strategy, [step])  # all have saved
                    raise preemption.Preempted
                stopped = not done and self._look(evaluate, point)
                if stopped and not due:
                    manager.save(saved, point)
        return point.global_step

    def _progress(self, step: int) -> Progress:
        by_clock = self._options.num_train_minutes
        return Progress(
            "training",
            total=None if by_clock else self._options.last_step,
            initial=step,
            unit="steps",
            seconds=20,
        )

    def _call(
        self, iterator, step: int, schedule: Schedule
    ) -> tuple[np.ndarray, float, bool]:
        """Makes the updates up to the next thing to do in between.

        Args:
          iterator: of batches.
          step: of the last update.
          schedule: of all updates.

        Returns:
          The metrics of each update; the seconds it took; whether SIGTERM has
          come. Several workers make the same calls, and stop together.
        """
        began = self._clock()
        num_steps = self._next_call(step, schedule.steps_left(step))
        metrics = self.run_steps(
            iterator,
            first_step=step + 1,
            num_steps=num_steps,
            positions=schedule.positions(step),
        )
        seconds, preempted = all_workers(
            self._strategy, [self._clock() - began, preemption.requested()]
        ).max(axis=0)
        self._steps_per_call = max(1, int(num_steps * _CALL_SECONDS / seconds))
        schedule.measured(seconds / num_steps)
        return metrics, seconds, bool(preempted)

    def _is_save_due(self, step: int) -> bool:
        """Whether to save after a step, even if nothing else happened."""
        if self._is_look_due(step) and num_workers(self._strategy) > 1:
            # SIGTERM may take longer to be heard by all than a machine waits.
            return True
        return step % self._options.save_checkpoints_steps == 0

    def _is_look_due(self, step: int) -> bool:
        every = self._options.eval_every_steps
        return every > 0 and step % every == 0

    def _look(
        self,
        evaluate: Callable[[int], bool | None] | None,
        point: ResumePoint,
    ) -> bool:
        """Evaluates if it is time to; True = stop."""
        step = point.global_step
        if not self._is_look_due(step):
            return False
        if num_workers(self._strategy) > 1:
            # Saved already. It ends where all workers hear of SIGTERM, see
            # `PreemptionCheck`: if one alone did, the others would wait.
            return bool(evaluate(step))
        try:
            with preemption.heeded():
                return bool(evaluate(step))
        except preemption.Preempted:
            # Raised again where SIGTERM is no longer deferred: when the step
            # is saved.
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

        Args:
          iterator: of (distributed) batches.
          first_step: number of the first update, counted from 1.
          num_steps: how many.
          positions: see `Schedule.positions`; None = the updates' numbers.

        Returns:
          Float32 [num_steps, metrics, 2], each a sum and a weight.

        Raises:
          ValueError: see `train`.
        """
        if positions is None:
            positions = np.array([first_step, 1], np.float32)
        try:
            return self._steps.run(
                iterator,
                tf.constant(first_step, tf.int64),
                tf.constant(num_steps, tf.int32),
                tf.constant(positions),
            ).numpy()
        except tf.errors.ResourceExhaustedError as error:
            raise ValueError(
                f"step {first_step}: out of memory "
                f"({error.message.splitlines()[0]}). Raise "
                "--gradient_accumulation_steps (the same result in less "
                "memory), or lower --train_batch_size or --max_seq_length."
            ) from error
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as e:
            last = first_step + num_steps - 1
            raise ValueError(
                f"steps {first_step} to {last}: the training input holds "
                f"something that does not fit the model: {e.message}"
            ) from e

    def _next_call(self, step: int, steps_left: int) -> int:
        """Steps of the next call: up to the next thing to do in between."""
        options = self._options
        stops = [
            options.save_checkpoints_steps,
            options.eval_every_steps,
            options.log_steps,
        ]
        to_next_stop = min(every - step % every for every in stops if every)
        most = options.iterations_per_loop
        if not is_tpu(self._strategy):
            most = min(most, self._steps_per_call)
        return min(to_next_stop, most, steps_left)

    def _check_finite(
        self, metrics: np.ndarray, step: int, manager: CheckpointManager
    ) -> None:
        """Stops at the first step whose loss or gradient is not finite."""
        finite = np.isfinite(metrics).all(axis=(1, 2))
        if finite.all():
            return
        bad = int(np.argmin(finite))
        names = [
            name
            for name, metric in zip(
                self.metric_names, metrics[bad], strict=True
            )
            if not np.isfinite(metric).all()
        ]
        saved = manager.steps()
        last_good = manager.prefix(saved[-1]) if saved else "none yet"
        raise FloatingPointError(
            f"step {step + bad + 1}: {', '.join(names)} became nan or "
            f"infinite. The last good checkpoint is kept: {last_good}. Lower "
            "--learning_rate, lengthen --num_warmup_steps, or look at the "
            "data of that step."
        )


def _after(
    point: ResumePoint, step: int, options: TrainOptions, schedule: Schedule
) -> ResumePoint:
    """Where the run stands when it has come to another step."""
    num_examples = (step - point.global_step) * options.train_batch_size
    return dataclasses.replace(
        point,
        global_step=step,
        examples_seen=point.examples_seen + num_examples,
        train_seconds=schedule.seconds,
    )
