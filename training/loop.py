"""The training loop: steps on the devices, everything else between them.

Not Keras `fit`: under a strategy it clips before the sum, cannot accumulate,
and does not resume within an epoch. All random numbers are functions of
(seed, step, device, micro-batch), so a resumed run repeats an uninterrupted
one bit for bit on one device.
"""

import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import logging

from data.progress import Progress
from modeling import checkpoints
from training import optimization
from training.checkpointing import CheckpointManager, ResumePoint
from training.evaluation import Model
from training.events import MetricLog
from training.options import TrainOptions
from training.strategy import check_batch_size, is_tpu

_SUM = tf.distribute.ReduceOp.SUM
# Off a TPU, a call into the device lasts about this long, so that progress
# shows and ^C is heard; the results do not depend on it.
_CALL_SECONDS = 1.0


class Trainer:
    """Trains a model under a strategy; create it in the strategy's scope.

    Args:
      model: see `Model`.
      options: how to train.

    Attributes:
      weights: full name -> variable.
      optimizer: holds the slots of those that learn.
      metric_names: of a step's metrics, in order; known after one step.

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
        self._model = model
        self._options = options
        self.weights = checkpoints.variables_by_name(model.layers)
        rates = optimization.layer_rates(
            self.weights,
            layerwise_lr_decay=options.layerwise_lr_decay,
            trainable_layers=options.trainable_layers,
        )
        trainable = {
            variable.path
            for layer in model.layers
            for variable in layer.trainable_variables
        }
        self._learning = {
            name: self.weights[name] for name in rates if name in trainable
        }
        self.optimizer = optimization.AdamWeightDecay(self._learning, rates)
        self._saved = {**self.weights, **self.optimizer.slots}
        self.metric_names: list[str] = []
        # Only the gradient is compiled whole: under a strategy, a compiled
        # function may not reach for another replica's variables.
        self._compute = (
            tf.function(self._gradients, jit_compile=True)
            if options.xla
            else self._gradients
        )
        self._steps_per_call = 1  # until their duration is known

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
                    manager.save(self._saved, point)
                    events.flush()
                every = options.eval_every_steps
                if not (every and step % every == 0) or done:
                    continue
                if evaluate(step):
                    if not saves:
                        manager.save(self._saved, point)
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
            return self._train_steps(
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
        restored = manager.restore(self._saved)
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

    @tf.function
    def _train_steps(self, iterator, first_step, num_steps):
        """Runs steps on the devices: float32 [num_steps, metrics, 2]."""
        rows = tf.TensorArray(tf.float32, size=num_steps)
        for i in tf.range(num_steps):
            metrics = self._strategy.run(
                self._replica_step,
                args=(next(iterator), first_step + tf.cast(i, tf.int64)),
            )
            rows = rows.write(
                i, self._strategy.reduce(_SUM, metrics, axis=None)
            )
        return rows.stack()

    def _replica_step(self, batch, step):
        """One update, as seen by one device: its metrics [metrics, 2]."""
        options = self._options
        replica = tf.distribute.get_replica_context()
        loss_weights = replica.all_reduce(_SUM, self._model.loss_weights(batch))
        seed = tf.random.fold_in(
            tf.random.fold_in([options.seed, 0], step),
            replica.replica_id_in_sync_group,
        )
        gradients, metrics = self._compute(batch, loss_weights, seed)
        gradients = replica.all_reduce(_SUM, gradients)
        rate = optimization.learning_rate(
            step,
            peak=options.learning_rate,
            num_train_steps=options.num_train_steps,
            num_warmup_steps=options.num_warmup_steps,
        )
        norm = self.optimizer.apply(gradients, rate)
        share = 1.0 / self._strategy.num_replicas_in_sync
        return tf.concat(
            [metrics, share * tf.stack([[norm, 1.0], [rate, 1.0]])], axis=0
        )

    def _gradients(self, batch, loss_weights, seed):
        """Gradients and metrics of a device's batch, by micro-batches."""
        count = self._options.gradient_accumulation_steps
        if count == 1:
            return self._micro_gradients(batch, loss_weights, seed)
        # The shape as a tensor: a trimmed batch's length differs from step
        # to step.
        parts = {
            name: tf.reshape(x, tf.concat([[count, -1], tf.shape(x)[1:]], 0))
            for name, x in batch.items()
        }

        def micro(i):
            part = {name: x[i] for name, x in parts.items()}
            return self._micro_gradients(
                part, loss_weights, tf.random.fold_in(seed, i)
            )

        gradients, metrics = micro(0)

        def add(i, gradients, metrics):
            more, more_metrics = micro(i)
            summed = [a + b for a, b in zip(gradients, more, strict=True)]
            return i + 1, summed, metrics + more_metrics

        _, gradients, metrics = tf.while_loop(
            lambda i, *_: i < count,
            add,
            (tf.constant(1), gradients, metrics),
            parallel_iterations=1,  # one micro-batch in memory at a time
        )
        return gradients, metrics

    def _micro_gradients(self, batch, loss_weights, seed):
        """Gradients (dense) and stacked metrics of one micro-batch."""
        weights = list(self._learning.values())
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            loss, metrics = self._model.losses(batch, loss_weights, seed)
        gradients = [
            tf.convert_to_tensor(gradient)
            for gradient in tape.gradient(
                loss, weights, unconnected_gradients="zero"
            )
        ]
        # The shares of all devices and micro-batches add up to the loss.
        count = (
            self._options.gradient_accumulation_steps
            * self._strategy.num_replicas_in_sync
        )
        names = sorted(metrics)
        self.metric_names = [*names, "loss", "gradient_norm", "learning_rate"]
        return gradients, tf.stack(
            [*(metrics[n] for n in names), tf.stack([loss, 1.0 / count])]
        )
