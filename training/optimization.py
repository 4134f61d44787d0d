"""The original's Adam and its learning-rate schedule.

Pure functions for the arithmetic, one thin class for the state.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import tensorflow as tf

from training.strategy import is_tpu

BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-6
WEIGHT_DECAY = 0.01
CLIP_NORM = 1.0
# Searched in the full variable name, as the original does. Embedding tables
# and `output_weights` are decayed, `output_bias` is not.
NOT_DECAYED = ("LayerNorm", "layer_norm", "bias")
ALL_LAYERS = -1
_BLOCK = re.compile(r"encoder/layer_(\d+)/")


def learning_rate(
    step: tf.Tensor,
    *,
    peak: float,
    num_train_steps: int,
    num_warmup_steps: int,
) -> tf.Tensor:
    """Linear warm-up, then linear decay that counts from step 0.

    At the end of the warm-up the rate therefore drops a little, from peak
    to peak * (1 - num_warmup_steps / num_train_steps). The last update has
    rate 0.

    Args:
      step: scalar, the number of this update, counted from 1. (The
        original's graph leaves open whether the schedule sees global_step
        before or after it is raised; when run, it is after.) A share of the
        schedule's time, if that is what it follows, times num_train_steps.
      peak: rate that the warm-up aims at.
      num_train_steps: updates after which the rate is 0.
      num_warmup_steps: updates of warm-up; 0 = none.

    Returns:
      Float32 scalar.

    Source: `optimization.create_optimizer`.
    """
    done = tf.cast(step, tf.float32)
    share = tf.minimum(done, num_train_steps) / float(num_train_steps)
    decayed = peak * (1.0 - share)
    if not num_warmup_steps:
        return decayed
    warming = peak * (done / float(num_warmup_steps))
    return tf.where(done < num_warmup_steps, warming, decayed)


def adam_update(
    param: tf.Tensor,
    m: tf.Tensor,
    v: tf.Tensor,
    grad: tf.Tensor,
    *,
    rate: tf.Tensor,
    weight_decay: float,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """One Adam step without bias correction, with decoupled weight decay.

    Args:
      param: float32, the weights.
      m: same shape, running mean of gradients.
      v: same shape, running mean of squared gradients.
      grad: same shape, the clipped gradient.
      rate: float32 scalar, this step's learning rate.
      weight_decay: 0.01, or 0 for weights that are not decayed.

    Returns:
      The new param, m and v.

    Source: `optimization.AdamWeightDecayOptimizer.apply_gradients`.
    """
    m = BETA_1 * m + (1.0 - BETA_1) * grad
    v = BETA_2 * v + (1.0 - BETA_2) * tf.square(grad)
    direction = m / (tf.sqrt(v) + EPSILON)
    if weight_decay:
        direction += weight_decay * param
    return param - rate * direction, m, v


def is_decayed(name: str) -> bool:
    """Whether weight decay applies to the variable of this full name."""
    return not any(re.search(pattern, name) for pattern in NOT_DECAYED)


def layer_rates(
    names: Iterable[str],
    *,
    layerwise_lr_decay: float = 1.0,
    trainable_layers: int = ALL_LAYERS,
) -> dict[str, float]:
    """How fast each variable learns: its factor of the learning rate.

    The last block, pooler and head learn at the full rate, each block below
    at `layerwise_lr_decay` times the rate of the one above it, the embeddings
    below them all.

    Args:
      names: full names of all variables.
      layerwise_lr_decay: 1 = all alike.
      trainable_layers: blocks that learn, counted from the last, beside
        pooler and head; the others and the embeddings are frozen. 0 = pooler
        and head alone, -1 = everything learns.

    Returns:
      Name -> factor, without the frozen variables.

    Raises:
      ValueError: the model has fewer blocks.

    Source: Sun et al., "How to Fine-Tune BERT for Text Classification?",
      arXiv:1905.05583, section 3.
    """
    names = list(names)
    blocks = {n: int(match[1]) for n in names if (match := _BLOCK.search(n))}
    num_blocks = 1 + max(blocks.values(), default=-1)
    if trainable_layers > num_blocks:
        raise ValueError(
            f"--trainable_layers={trainable_layers}, but the model has "
            f"{num_blocks}; give {num_blocks} or less, or {ALL_LAYERS} for "
            "everything."
        )
    rates = {}
    for name in names:
        if name in blocks:
            below_last = num_blocks - 1 - blocks[name]
        elif "/embeddings/" in name:
            below_last = num_blocks
        else:
            rates[name] = 1.0
            continue
        if trainable_layers == ALL_LAYERS or below_last < trainable_layers:
            rates[name] = layerwise_lr_decay**below_last
    return rates


def accepts_rows(new_values: Callable) -> Callable:
    """Marks an update rule as one that can take looked-up rows alone.

    The gradient of such rows is added to both means before the rule runs, and
    the rule then gets a gradient of 0. That is right only if the gradient
    enters the rule through Adam's two means, with their decay rates, and
    nowhere else. The mark belongs to the function: a subclass that overrides
    `new_values` gets the whole gradient, unless it marks its own.

    Args:
      new_values: see `AdamWeightDecay.new_values`.

    Returns:
      The same function.
    """
    new_values.accepts_rows = True
    return new_values


class AdamWeightDecay:
    """Holds the slots; clips and updates.

    A subclass that overrides `new_values` is another update rule.

    Create it in the strategy's scope. On one device the whole update,
    clipping included, is one compiled function: half the time of separate
    operations.

    Args:
      variables: full name -> float32 variable.
      rates: full name -> factor of the learning rate; None = 1 for all.
      skips_overflow: leave weights and slots as they are where the gradients
        are not finite, as loss scaling needs.

    Attributes:
      takes_slices: whether `apply` is quicker with gradients of looked-up
        rows alone; otherwise it converts them to dense ones.
      slots: `<name>/adam_m` and `<name>/adam_v` -> variable, as in a
        checkpoint.
    """

    def __init__(
        self,
        variables: Mapping[str, tf.Variable],
        rates: Mapping[str, float] | None = None,
        *,
        skips_overflow: bool = False,
    ):
        self._variables = list(variables.values())
        self._factors = [rates[n] if rates else 1.0 for n in variables]
        self._decays = [WEIGHT_DECAY * is_decayed(name) for name in variables]
        self._m, self._v = (
            [
                tf.Variable(tf.zeros(v.shape), trainable=False)
                for v in self._variables
            ]
            for _ in range(2)
        )
        self.slots = {
            f"{name}/{slot}": variable
            for slot, slots in (("adam_m", self._m), ("adam_v", self._v))
            for name, variable in zip(variables, slots, strict=True)
        }
        strategy = tf.distribute.get_strategy()
        self._one_device = strategy.num_replicas_in_sync == 1 and not is_tpu(
            strategy
        )
        self.takes_slices = (
            self._one_device
            and not skips_overflow
            and getattr(self.new_values, "accepts_rows", False)
        )
        self._update = functools.partial(
            _update, self.new_values, skips_overflow
        )
        self._compiled = _compiled_update(
            self.new_values,
            skips_overflow,
            tuple(self._decays),
            tuple(self._factors),
            tuple(tuple(v.shape) for v in self._variables),
        )

    def apply(
        self,
        gradients: Sequence[tf.Tensor | None],
        rate: tf.Tensor,
        step: tf.Tensor,
        squares: Mapping[int, tf.Tensor] | None = None,
    ) -> tf.Tensor:
        """Clips the gradients to global norm 1 and updates the variables.

        Call it in replica context with gradients already summed over
        replicas.

        Args:
          gradients: one for each variable, float32: dense, or
            tf.IndexedSlices; None = the loss does not depend on the variable,
            which keeps its value and its slots, without weight decay.
          rate: float32 scalar.
          step: int64 scalar, the number of this update, counted from 1.
          squares: float32 scalars, for those variables (by their place) whose
            rows are looked up: the sum of the squares of the gradients of
            all rows, before those of a row that is looked up twice are added.
            The original's norm is made of these.

        Returns:
          The global norm before clipping, float32 scalar.

        Source: `optimization.AdamWeightDecayOptimizer.apply_gradients`.
        """
        if not self.takes_slices:
            gradients = [
                None if gradient is None else tf.convert_to_tensor(gradient)
                for gradient in gradients
            ]
        norm = _global_norm(gradients, squares or {})
        if self._one_device:
            m, v = map(_local, (self._m, self._v))
            gradients = [
                _add_rows(*row, norm)
                if isinstance(row[-1], tf.IndexedSlices)
                else row[-1]
                for row in zip(m, v, gradients, strict=True)
            ]
            self._compiled(
                *(_local(self._variables), m, v, gradients, norm, rate, step)
            )
            return norm
        # Differs from the original: it clips each replica's gradient before
        # the sum, so that the effective bound grows with the replicas.
        tf.distribute.get_replica_context().merge_call(
            self._update_replicas,
            args=(_clip(gradients, norm), norm, rate, step),
        )
        return norm

    @staticmethod
    @accepts_rows
    def new_values(param, m, v, grad, *, rate, weight_decay, step):
        """See `adam_update`, which is the same at every step."""
        del step
        return adam_update(
            param, m, v, grad, rate=rate, weight_decay=weight_decay
        )

    def _update_replicas(self, strategy, gradients, norm, rate, step):
        """In cross-replica context: each device updates its own copy."""
        for variable, m, v, gradient, decay, factor in zip(
            *(self._variables, self._m, self._v, gradients),
            *(self._decays, self._factors),
            strict=True,
        ):
            if gradient is None:
                continue
            strategy.extended.update(
                variable,
                self._update,
                args=(m, v, gradient, norm, rate, step),
                kwargs={"decay": decay, "factor": factor},
            )


def _global_norm(gradients, squares):
    # Not in the compiled function, which would write all squares to memory.
    return tf.sqrt(
        tf.add_n(
            [
                squares[i] if i in squares else 2.0 * tf.nn.l2_loss(gradient)
                for i, gradient in enumerate(gradients)
                if gradient is not None
            ]
        )
    )


def _add_rows(m, v, slices, norm):
    """Adds the clipped gradient of some rows to Adam's means of it.

    Returns:
      0, the gradient that is left for all rows: their decay is to come.
    """
    rows, places = tf.unique(slices.indices)
    summed = tf.math.unsorted_segment_sum(slices.values, places, tf.size(rows))
    (clipped,) = _clip([summed], norm)
    for mean, beta, value in (
        (m, BETA_1, clipped),
        (v, BETA_2, tf.square(clipped)),
    ):
        mean.scatter_add(tf.IndexedSlices(value * ((1.0 - beta) / beta), rows))
    return tf.zeros([])


def _clip(gradients, norm):
    """Scales to global norm 1 what has a greater one."""
    return tf.clip_by_global_norm(gradients, CLIP_NORM, use_norm=norm)[0]


def _local(variables):
    """The copies of the one device, if a strategy has wrapped them."""
    strategy = tf.distribute.get_strategy()
    return [strategy.experimental_local_results(v)[0] for v in variables]


@functools.cache
def _compiled_update(
    new_values: Callable[..., tuple[tf.Tensor, ...]],
    skips_overflow: bool,
    decays: tuple[float, ...],
    factors: tuple[float, ...],
    shapes: tuple[tuple[int, ...], ...],
) -> Callable[..., None]:
    """One function for all models alike.

    What XLA has compiled stays in memory as long as the process, 30 MB for a
    model of two layers, and trials would compile the same again and again.
    """
    del shapes  # a key: a function traced for many, TensorFlow warns of

    @functools.partial(tf.function, jit_compile=True, autograph=False)
    def update(variables, m, v, gradients, norm, rate, step):
        for *row, decay, factor in zip(
            *(variables, m, v, _clip(gradients, norm), decays, factors),
            strict=True,
        ):
            if row[-1] is None:
                continue
            _update(
                *(new_values, skips_overflow, *row, norm, rate, step),
                decay=decay,
                factor=factor,
            )

    return update


def _update(
    new_values,
    skips_overflow,
    variable,
    m,
    v,
    gradient,
    norm,
    rate,
    step,
    *,
    decay,
    factor,
):
    """Writes `new_values` back into one variable and its slots."""
    before = [x.read_value() for x in (variable, m, v)]
    after = new_values(
        *before, gradient, rate=rate * factor, weight_decay=decay, step=step
    )
    finite = tf.math.is_finite(norm)
    for x, old, new in zip((variable, m, v), before, after, strict=True):
        x.assign(tf.where(finite, new, old) if skips_overflow else new)
