"""The arithmetic of training: one update, and many in one call.

All random numbers are functions of (seed, step, device, micro-batch), so a
resumed run repeats an uninterrupted one bit for bit on one CPU.
"""

from typing import Any

import tensorflow as tf

from data.records.length_batches import trimmed_lengths
from modeling import checkpoints, kernels
from modeling.config import BertConfig
from modeling.kernels import Form, seeds
from modeling.kernels.recomputation import divided, one_by_one
from modeling.objectives.base import Objective
from training.config.run_options import TrainOptions
from training.devices import gpus, kinds
from training.devices.strategy import has_onednn, is_tpu, kind_of
from training.loop import custom_gradients, optimizers, rates
from training.loop.lamb import Lamb
from training.loop.loss_scale import LEAST, LossScale
from training.loop.muon import Muon

_SUM = tf.distribute.ReduceOp.SUM


def with_fusion(
    options: TrainOptions,
    config: BertConfig,
    *,
    seq_length: int,
    trims: bool = False,
) -> TrainOptions:
    """Decides `fuse` if it is None; call it in the strategy's scope.

    `seq_length` is S, or the longest one if batches are trimmed (`trims`).
    Returns the options with `fuse` True or False. A resumed run gets the same
    value, unless it trains for more steps or on other devices. Raises
    ValueError if XLA cannot compile for the GPU.
    """
    strategy = tf.distribute.get_strategy()
    reason = gpus.why_not_compiled(gpus.seen())
    given = [name for name in ("xla", "fuse") if getattr(options, name)]
    if given and reason:
        raise ValueError(
            f"{' and '.join(f'--{name}' for name in given)} cannot be used: "
            f"{reason}. Give {' '.join(f'--{name}=false' for name in given)}."
        )
    if options.fuse is not None:
        return options
    kind = kind_of(strategy)
    lengths = trimmed_lengths(seq_length, kind.multiple) if trims else [1]
    batch_size = options.train_batch_size // strategy.num_replicas_in_sync
    wordpieces = options.num_train_steps * batch_size * seq_length
    if len(lengths) > 1:  # about half of them are padding
        wordpieces //= 2
    work = wordpieces * config.num_hidden_layers * config.hidden_size
    repays = work >= kind.repaid * len(lengths)
    is_long = options.num_train_minutes > 0 or repays
    return options.replace(fuse=is_long and not reason)


def trimming(options: TrainOptions) -> dict[str, Any]:
    """Returns the options of `length_batches.trim_batch` for the device.

    Call it, like `with_fusion`, whose options it takes, in the strategy's
    scope.
    """
    strategy = tf.distribute.get_strategy()
    kind = kind_of(strategy)
    # A GPU is faster with even lengths, a compiler with few lengths.
    exact = not (options.fuse or options.xla) and has_onednn(strategy)
    multiple = kind.compiled_multiple if options.xla else kind.multiple
    return {"exact": exact, "multiple": multiple}


def _compiles_update(options, strategy):
    """Whether the update is a compiled function of its own."""
    if kind_of(strategy) is kinds.GPU:
        return bool(options.fuse or options.xla)
    return not is_tpu(strategy)


class TrainSteps:
    """Updates a model's weights; create it in the strategy's scope.

    Attributes:
      weights: full name -> variable.
      optimizer: updates the trainable weights.
      arithmetic: dtype of the model's computations, such as `bfloat16`.
      loss_scale: for float16, else None.
      saved: the variables of a checkpoint: the weights, the slots of the
        trainable ones, and the loss scale.
      metric_names: names of a step's metrics, in order; known after one step.
    """

    def __init__(self, model: Objective, options: TrainOptions):
        self._strategy = tf.distribute.get_strategy()
        self._model = model
        self._options = options
        self._on_tpu = is_tpu(self._strategy)
        self.weights = checkpoints.variables_by_name(model.layers)
        layer_rates = rates.layer_rates(self.weights, options)
        trainable = {v.path for x in model.layers for v in x.trainable_weights}
        names = [name for name in layer_rates if name in trainable]
        self._learning = {name: self.weights[name] for name in names}
        self.arithmetic = model.layers[0].compute_dtype
        in_float16 = self.arithmetic == "float16"
        self.loss_scale = LossScale() if in_float16 else None
        adamw = optimizers.AdamWeightDecay
        optimizer = {"adamw": adamw, "lamb": Lamb, "muon": Muon}
        self.optimizer = optimizer[options.optimizer](
            self._learning,
            layer_rates,
            skips_overflow=in_float16,
            compiles=_compiles_update(options, self._strategy),
        )
        self.saved = {**self.weights, **self.optimizer.slots}
        if self.loss_scale:
            self.saved |= self.loss_scale.saved
        self.metric_names: list[str] = []
        self._sending = tf.distribute.experimental.CommunicationOptions(
            bytes_per_pack=kind_of(self._strategy).bytes_per_pack
        )
        # A TPU compiles the whole step. It would place a part that is compiled
        # separately on its host.
        is_fused = options.fuse and not self._on_tpu
        self._form = Form.COMPILED if is_fused else Form.STANDARD
        # Accumulation needs dense gradients.
        is_whole = options.gradient_accumulation_steps == 1
        self._keeps_slices = self.optimizer.takes_slices and is_whole
        # XLA compiles the gradient only: under a strategy, a compiled function
        # cannot access the variables of another replica.
        self._compute = (
            tf.function(self._gradients, jit_compile=True, autograph=False)
            if options.xla and not self._on_tpu
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
          iterator: yields (distributed) batches.
          first_step: int64 scalar, number of the first update, counted from 1.
          num_steps: int32 scalar, how many.
          schedule: float32 [2]: schedule position of the first update and its
            increment per update; None = [first_step, 1].

        Returns:
          Float32 [num_steps, metrics, 2], each a sum and a weight.
        """
        if schedule is None:
            schedule = tf.stack([tf.cast(first_step, tf.float32), 1.0])
        rows = tf.TensorArray(tf.float32, size=num_steps)
        with custom_gradients.released():
            for i in tf.range(num_steps):
                with seeds.outside_xla(not self._on_tpu), seeds.placed():
                    step = first_step + tf.cast(i, tf.int64)
                position = schedule[0] + schedule[1] * tf.cast(i, tf.float32)
                arguments = next(iterator), step, position
                metrics = self._strategy.run(self._replica_step, arguments)
                metrics = self._strategy.reduce(_SUM, metrics, axis=None)
                rows = rows.write(i, metrics)
        return rows.stack()

    # There is no Python control flow over tensors below. Autograph would take a
    # third of the tracing time to look for it.
    @tf.autograph.experimental.do_not_convert
    def _replica_step(self, batch, step, position):
        """One update on one device; returns its metrics [metrics, 2]."""
        options = self._options
        replica = tf.distribute.get_replica_context()
        loss_weights = replica.all_reduce(_SUM, self._model.loss_weights(batch))
        with seeds.outside_xla(not self._on_tpu):
            seed = seeds.fold_in([options.seed, 0], step)
            seed = seeds.fold_in(seed, replica.replica_id_in_sync_group)
        scale = self.loss_scale.value.read_value() if self.loss_scale else None
        with seeds.outside_xla(not (self._on_tpu or options.xla)):
            gradients, squares, metrics = self._compute(
                batch, loss_weights, seed, scale
            )
        if not self._keeps_slices:
            # TensorFlow sends the last values first, in the order in which
            # the backward pass computes gradients. The squares need its end.
            squares, gradients = replica.all_reduce(
                _SUM, (squares, gradients), self._sending
            )
        if self.loss_scale:
            gradients = {i: x / scale for i, x in gradients.items()}
            squares = {i: x / (scale * scale) for i, x in squares.items()}
        rate = rates.learning_rate(position, options)
        in_order = [gradients.get(i) for i in range(len(self._learning))]
        norm = self.optimizer.apply(in_order, rate, step, squares)
        figures = [[norm, 1.0], [rate, 1.0]]
        if self.loss_scale:
            finite = tf.math.is_finite(norm)
            self.loss_scale.update(finite)
            # A skipped update has no norm. At the lowest scale it is shown, and
            # stops the run.
            shown = finite | (scale <= LEAST)
            norm = tf.where(shown, norm, 0.0)
            figures[0] = [norm, tf.cast(shown, tf.float32)]
            figures.insert(1, [scale, 1.0])
        share = 1.0 / self._strategy.num_replicas_in_sync
        return tf.concat([metrics, share * tf.stack(figures)], axis=0)

    def _gradients(self, batch, loss_weights, seed, scale):
        """`_micro_gradients` of a device's batch, summed."""
        count = self._options.gradient_accumulation_steps
        if count == 1:
            return self._micro_gradients(batch, loss_weights, seed, scale)
        parts = {name: divided(x, count) for name, x in batch.items()}

        def micro(i):
            part = {name: x[i] for name, x in parts.items()}
            own = seeds.fold_in(seed, i)
            return self._micro_gradients(part, loss_weights, own, scale)

        def add(i, sums):
            return tf.nest.map_structure(tf.add, sums, micro(i))

        return one_by_one(add, count, micro(0), first=1)

    def _micro_gradients(self, batch, loss_weights, seed, scale):
        """The gradients of one micro-batch.

        Returns:
          Index among the trainable weights -> scaled gradient, for those that
          the loss depends on; the sums of squares of sparse gradients, see
          `AdamWeightDecay.apply`; metrics.
        """
        weights = list(self._learning.values())
        with kernels.form(self._form):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(weights)
                loss, metrics = self._model.losses(batch, loss_weights, seed)
                scaled = loss if scale is None else loss * scale
            found = enumerate(tape.gradient(scaled, weights))
            gradients = {i: x for i, x in found if x is not None}
        squares = {
            i: tf.reduce_sum(tf.square(gradient.values))
            for i, gradient in gradients.items()
            if isinstance(gradient, tf.IndexedSlices)
        }
        if not self._keeps_slices:
            found = gradients.items()
            gradients = {i: tf.convert_to_tensor(x) for i, x in found}
        # The shares of all devices and micro-batches add up to the loss.
        count = self._options.gradient_accumulation_steps
        count *= self._strategy.num_replicas_in_sync
        names = sorted(metrics)
        scales = ["loss_scale"] if self.loss_scale else []
        others = ["loss", "gradient_norm", *scales, "learning_rate"]
        self.metric_names = names + others
        figures = [*(metrics[n] for n in names), tf.stack([loss, 1.0 / count])]
        return gradients, squares, tf.stack(figures)
