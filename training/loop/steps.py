"""The arithmetic of training: one update, and many in one call.

All random numbers are functions of (seed, step, device, micro-batch), so a
resumed run repeats an uninterrupted one bit for bit on one device.
"""

import dataclasses
import functools

import tensorflow as tf

from modeling import checkpoints, kernels
from modeling.config import BertConfig
from modeling.kernels import Form
from training.config.options import TrainOptions
from training.devices.strategy import is_tpu
from training.loop import custom_gradients, optimizers, rates
from training.loop.lamb import Lamb
from training.loop.loss_scale import LEAST, LossScale
from training.loop.model import Model

_SUM = tf.distribute.ReduceOp.SUM
# With the algorithm named: XLA would pick another one, and other dropout.
_fold_in = functools.partial(tf.random.fold_in, alg="philox")


def with_fusion(
    options: TrainOptions,
    config: BertConfig,
    *,
    seq_length: int,
    num_lengths: int = 1,
) -> TrainOptions:
    """Decides `fuse` where it is left open; call it in the strategy's scope.

    Args:
      options: how to train.
      config: the model's sizes.
      seq_length: S, or the longest one that batches are trimmed to.
      num_lengths: how many there are.

    Returns:
      The options, `fuse` True or False: the same in a resumed run, unless it
      is to train longer or on other devices.
    """
    if options.fuse is not None:
        return options
    pays = options.num_train_minutes > 0 or kernels.pays(
        config,
        num_steps=options.num_train_steps,
        batch_size=options.train_batch_size
        // tf.distribute.get_strategy().num_replicas_in_sync,
        seq_length=seq_length,
        num_lengths=num_lengths,
    )
    return dataclasses.replace(options, fuse=pays)


class TrainSteps:
    """Updates a model's weights; create it in the strategy's scope.

    Args:
      model: see `Model`.
      options: how to train.

    Attributes:
      weights: full name -> variable.
      optimizer: updates those that learn.
      arithmetic: dtype of the model's arithmetic, such as `bfloat16`.
      loss_scale: of a model that computes in float16, else None.
      saved: what a checkpoint holds: the weights, the slots of those that
        learn, and the loss scale.
      metric_names: of a step's metrics, in order; known after one step.
    """

    def __init__(self, model: Model, options: TrainOptions):
        self._strategy = tf.distribute.get_strategy()
        self._model = model
        self._options = options
        self.weights = checkpoints.variables_by_name(model.layers)
        layer_rates = rates.layer_rates(
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
            name: self.weights[name]
            for name in layer_rates
            if name in trainable
        }
        self.arithmetic = model.layers[0].compute_dtype
        in_float16 = self.arithmetic == "float16"
        self.loss_scale = LossScale() if in_float16 else None
        optimizer = {"adamw": optimizers.AdamWeightDecay, "lamb": Lamb}
        self.optimizer = optimizer[options.optimizer](
            self._learning,
            layer_rates,
            skips_overflow=in_float16,
            on_tpu=is_tpu(self._strategy),
        )
        self.saved = {**self.weights, **self.optimizer.slots}
        if self.loss_scale:
            self.saved |= self.loss_scale.saved
        self.metric_names: list[str] = []
        # A TPU compiles the whole step, and would take a part that is compiled
        # on its own for its host's.
        is_fused = options.fuse and not is_tpu(self._strategy)
        self._form = Form.COMPILED if is_fused else Form.PLAIN
        # What adds gradients up, or scales them, takes dense ones.
        self._keeps_slices = (
            self.optimizer.takes_slices
            and options.gradient_accumulation_steps == 1
            and not in_float16
        )
        # Only the gradient is compiled whole: under a strategy, a compiled
        # function may not reach for another replica's variables.
        self._compute = (
            tf.function(self._gradients, jit_compile=True, autograph=False)
            if options.xla and not is_tpu(self._strategy)
            else self._gradients
        )

    @tf.function
    def run(
        self,
        iterator,
        first_step: tf.Tensor,
        num_steps: tf.Tensor,
        schedule: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Makes updates in one call into the devices.

        Args:
          iterator: of (distributed) batches.
          first_step: int64 scalar, number of the first update, counted from 1.
          num_steps: int32 scalar, how many.
          schedule: float32 [2]: for which step of the learning-rate schedule
            the first update counts, and how many steps further each update
            is; None = for its own, and 1.

        Returns:
          Float32 [num_steps, metrics, 2], each a sum and a weight.
        """
        if schedule is None:
            schedule = tf.stack([tf.cast(first_step, tf.float32), 1.0])
        rows = tf.TensorArray(tf.float32, size=num_steps)
        with custom_gradients.released():
            for i in tf.range(num_steps):
                metrics = self._strategy.run(
                    self._replica_step,
                    args=(
                        next(iterator),
                        first_step + tf.cast(i, tf.int64),
                        schedule[0] + schedule[1] * tf.cast(i, tf.float32),
                    ),
                )
                rows = rows.write(
                    i, self._strategy.reduce(_SUM, metrics, axis=None)
                )
        return rows.stack()

    # Nothing below has Python's control flow over tensors; to look for it
    # takes a third of the time of tracing.
    @tf.autograph.experimental.do_not_convert
    def _replica_step(self, batch, step, position):
        """One update, as seen by one device: its metrics [metrics, 2]."""
        options = self._options
        replica = tf.distribute.get_replica_context()
        loss_weights = replica.all_reduce(_SUM, self._model.loss_weights(batch))
        seed = _fold_in(
            _fold_in([options.seed, 0], step),
            replica.replica_id_in_sync_group,
        )
        scale = self.loss_scale.value.read_value() if self.loss_scale else None
        gradients, squares, metrics = self._compute(
            batch, loss_weights, seed, scale
        )
        if not self._keeps_slices:
            gradients, squares = replica.all_reduce(_SUM, (gradients, squares))
        if self.loss_scale:
            gradients = {i: x / scale for i, x in gradients.items()}
            squares = {i: x / (scale * scale) for i, x in squares.items()}
        rate = rates.learning_rate(
            position,
            peak=options.learning_rate,
            num_train_steps=options.num_train_steps,
            num_warmup_steps=options.num_warmup_steps,
        )
        norm = self.optimizer.apply(
            [gradients.get(i) for i in range(len(self._learning))],
            *(rate, step, squares),
        )
        figures = [[norm, 1.0], [rate, 1.0]]
        if self.loss_scale:
            finite = tf.math.is_finite(norm)
            self.loss_scale.update(finite)
            # A skipped update has no norm; at the least scale, there being
            # nothing left to try, it shows the one that stops the run.
            shown = finite | (scale <= LEAST)
            figures[:1] = [
                [tf.where(shown, norm, 0.0), tf.cast(shown, tf.float32)],
                [scale, 1.0],
            ]
        share = 1.0 / self._strategy.num_replicas_in_sync
        return tf.concat([metrics, share * tf.stack(figures)], axis=0)

    def _gradients(self, batch, loss_weights, seed, scale):
        """`_micro_gradients` of a device's batch, summed."""
        count = self._options.gradient_accumulation_steps
        if count == 1:
            return self._micro_gradients(batch, loss_weights, seed, scale)
        # The shape as a tensor: a trimmed batch's length differs from step
        # to step.
        parts = {
            name: tf.reshape(x, tf.concat([[count, -1], tf.shape(x)[1:]], 0))
            for name, x in batch.items()
        }

        def micro(i):
            part = {name: x[i] for name, x in parts.items()}
            return self._micro_gradients(
                part, loss_weights, _fold_in(seed, i), scale
            )

        _, total = tf.while_loop(
            lambda i, _: i < count,
            lambda i, sums: (
                i + 1,
                tf.nest.map_structure(tf.add, sums, micro(i)),
            ),
            (tf.constant(1), micro(0)),
            parallel_iterations=1,  # one micro-batch in memory at a time
        )
        return total

    def _micro_gradients(self, batch, loss_weights, seed, scale):
        """Of one micro-batch.

        Returns:
          Scaled gradients of the weights that the loss depends on, by their
          place among those that learn; the squares of those of rows looked
          up, see `AdamWeightDecay.apply`; metrics.
        """
        weights = list(self._learning.values())
        with kernels.form(self._form):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(weights)
                loss, metrics = self._model.losses(batch, loss_weights, seed)
                scaled = loss if scale is None else loss * scale
            gradients = {
                i: gradient
                for i, gradient in enumerate(tape.gradient(scaled, weights))
                if gradient is not None
            }
        squares = {
            i: tf.reduce_sum(tf.square(gradient.values))
            for i, gradient in gradients.items()
            if isinstance(gradient, tf.IndexedSlices)
        }
        if not self._keeps_slices:
            gradients = {
                i: tf.convert_to_tensor(x) for i, x in gradients.items()
            }
        # The shares of all devices and micro-batches add up to the loss.
        count = (
            self._options.gradient_accumulation_steps
            * self._strategy.num_replicas_in_sync
        )
        names = sorted(metrics)
        scales = ["loss_scale"] if self.loss_scale else []
        self.metric_names = [*names, "loss", "gradient_norm", *scales]
        self.metric_names.append("learning_rate")
        figures = [*(metrics[n] for n in names), tf.stack([loss, 1.0 / count])]
        return gradients, squares, tf.stack(figures)
