"""The training loop: steps on the devices, everything else between them.

Not Keras `fit`: under a strategy it clips before the sum, cannot accumulate,
and does not resume within an epoch. The arithmetic is in `steps`.
"""

import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import logging

from data.progress import Progress
from training.checkpointing import CheckpointManager, ResumePoint
from training.evaluation import Model
from training.events import MetricLog
from training.options import TrainOptions
from training.steps import TrainSteps
from training.strategy import check_batch_size, is_tpu

# Off a TPU, a call into the device lasts about this long, so that progress
# shows and ^C is heard; the results do not depend on it.
_CALL_SECONDS = 1.0


class Trainer:
    """Trains a model under a strategy; create it in the strategy's scope.

    Args:
      model: see `Model`.
      options: how to train.

    Raises:
      ValueError: the batch cannot be cut into equal parts.
    """

    def __init__(self, model: Model, options: TrainOptions):
        self._strategy = tf.distribute.get_strategy()
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
        make_batches: Callable[[int], tf.data.Dataset],
        manager: CheckpointManager,
        *,
        num_examples: int,
        evaluate: Callable[[int], bool | None] | None = None,
    ) -> int:
        """Trains up to `num_train_steps`, from the newest checkpoint if any.

        Args:
          make_batches: from the number of examples seen before to the
            batches after them, `train_batch_size` examples each.
          manager: of the folder that is resumed from and saved to.
          num_examples: examples of the whole input.
          evaluate: called with the step every `eval_every_steps`, not at
            the end; True = stop here, with a checkpoint.

        Returns:
          The last step.

        Raises:
          FloatingPointError: loss or gradient became nan or infinite; the
            last checkpoint before that is kept.
          ValueError: the devices refused a step: a record that does not fit,
            or too little memory.
        """
        options = self._options
        manager.remove_leftovers()
        step, examples_seen = self._resume(manager, num_examples)
        if step >= options.num_train_steps:
            # Differs from the original: it passes over a finished run with
            # hardly a word, because of which people wait for nothing.
            logging.warning(
                "%s already holds step %d of --num_train_steps=%d: nothing "
                "to train. To go on, give more steps; to begin anew, give "
                "another --output_dir.",
                options.output_dir,
                step,
                options.num_train_steps,
            )
            return step
        batches = self._strategy.experimental_distribute_dataset(
            make_batches(examples_seen)
        )
        iterator = iter(batches)
        events = tf.summary.create_file_writer(options.output_dir)
        with (
            events.as_default(),
            Progress(
                "training",
                total=options.num_train_steps,
                initial=step,
                unit="steps",
                seconds=20,
            ) as progress,
        ):
            log = MetricLog(options)
            while step < options.num_train_steps:
                began = time.monotonic()
                num_steps = self._next_call(step)
                metrics = self.run_steps(
                    iterator, first_step=step + 1, num_steps=num_steps
                )
                self._check_finite(metrics, step, manager)
                step += num_steps
                examples_seen += num_steps * options.train_batch_size
                seconds = time.monotonic() - began
                self._steps_per_call = max(
                    1, int(num_steps * _CALL_SECONDS / seconds)
                )
                figures = log.add(self.metric_names, metrics, step, seconds)
                progress.advance(num_steps, figures)
                point = ResumePoint(
                    step, examples_seen, options.seed, num_examples
                )
                done = step == options.num_train_steps
                saves = done or step % options.save_checkpoints_steps == 0
                if saves:
                    manager.save(self._steps.saved, point)
                    events.flush()
                every = options.eval_every_steps
                if not (every and step % every == 0) or done:
                    continue
                if evaluate(step):
                    if not saves:
                        manager.save(self._steps.saved, point)
                    break
        return step

    def run_steps(
        self, iterator, *, first_step: int, num_steps: int
    ) -> np.ndarray:
        """Makes updates in one call into the devices.

        Args:
          iterator: of (distributed) batches.
          first_step: number of the first update, counted from 1.
          num_steps: how many.

        Returns:
          Float32 [num_steps, metrics, 2], each a sum and a weight.

        Raises:
          ValueError: see `train`.
        """
        try:
            return self._steps.run(
                iterator,
                tf.constant(first_step, tf.int64),
                tf.constant(num_steps, tf.int32),
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

    def _resume(
        self, manager: CheckpointManager, num_examples: int
    ) -> tuple[int, int]:
        """Restores; returns the step and the examples seen before it."""
        restored = manager.restore(self._steps.saved)
        if restored is None:
            return 0, 0
        step, record = restored
        for what, now in (
            ("seed", self._options.seed),
            ("num_examples", num_examples),
        ):
            before = record.get(what, now)
            if before != now:
                logging.warning(
                    "%s is %d now, but was %d before: the run goes on, with "
                    "another order of the data.",
                    what,
                    now,
                    before,
                )
        logging.info("Resuming %s at step %d.", self._options.output_dir, step)
        return step, record.get(
            "examples_seen", step * self._options.train_batch_size
        )

    def _next_call(self, step: int) -> int:
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
        return min(to_next_stop, most, options.num_train_steps - step)

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
