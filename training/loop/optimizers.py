"""The original's Adam with weight decay.

Pure functions for the arithmetic, one thin class for the state.
"""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from modeling import kernels

BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-6
WEIGHT_DECAY = 0.01
CLIP_NORM = 1.0
# Searched in the full variable name, as the original does. Embedding tables
# and `output_weights` are decayed, `output_bias` is not.
NOT_DECAYED = ("LayerNorm", "layer_norm", "bias")


def accepts_rows(new_values: Callable) -> Callable:
    """Marks an update rule that accepts sparse gradients of looked-up rows.

    The gradient of the rows is added to both means before the rule
    (`AdamWeightDecay.new_values`) runs, and the rule gets a gradient of 0. This
    is correct only if the rule uses the gradient in nothing but Adam's two
    means, with their decay rates. A subclass that overrides `new_values` gets
    dense gradients, unless it marks its own function.
    """
    new_values.accepts_rows = True
    return new_values


@accepts_rows
def adam_update(
    param: tf.Tensor,
    m: tf.Tensor,
    v: tf.Tensor,
    grad: tf.Tensor,
    *,
    rate: tf.Tensor,
    weight_decay: float,
    step: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """One Adam step without bias correction, with decoupled weight decay.

    Returns the new weights `param`, and running means `m` of gradients and `v`
    of squared gradients. They have the shape of the clipped gradient `grad`,
    float32; `weight_decay` 0 = not decayed; the rule does not depend on `step`.

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
    return not any(part in name for part in NOT_DECAYED)


class AdamWeightDecay:
    """Clips gradients and updates variables and slots.

    A subclass overrides `new_values` for another update rule, or `rule_of` for
    another one of some variables. Create it in the strategy's scope. On each
    device the whole update is one compiled function, which takes half the time
    of separate operations. On a TPU it is part of the compiled step.

    Args:
      variables: full name -> float32 variable.
      rates: full name -> factor of the learning rate; None = 1 for all.
      skips_overflow: leave weights and slots unchanged if the gradients are
        not finite, as loss scaling needs.
      compiles: whether to compile it; False for a TPU, and for a GPU where
        nothing is to be compiled.

    Attributes:
      takes_slices: whether `apply` takes sparse gradients, and is faster with
        them.
      slots: `<name>/adam_m` and `<name>/adam_v` -> variable, as in a
        checkpoint.
    """

    new_values = staticmethod(adam_update)

    def __init__(
        self,
        variables: Mapping[str, tf.Variable],
        rates: Mapping[str, float] | None = None,
        *,
        skips_overflow: bool = False,
        compiles: bool = True,
    ):
        self._variables = list(variables.values())
        self.slots = {
            f"{name}/{slot}": tf.Variable(tf.zeros(v.shape), trainable=False)
            for slot in ("adam_m", "adam_v")
            for name, v in variables.items()
        }
        slots, count = [*self.slots.values()], len(variables)
        self._m, self._v = slots[:count], slots[count:]
        self._compiles = compiles
        # On a GPU a scatter adds in no fixed order, and `tf.unique` waits for
        # the host.
        self.takes_slices = (
            compiles
            and tf.distribute.get_strategy().num_replicas_in_sync == 1
            and not skips_overflow
            and not kernels.has_gpu()
            and getattr(self.new_values, "accepts_rows", False)
        )
        shapes = tuple(tuple(v.shape) for v in self._variables)
        # On a CPU it would write all squares to memory.
        compiles_norm = compiles and kernels.has_gpu()
        self._norm = _compiled_norm(shapes) if compiles_norm else _global_norm
        self._updates = tuple(
            _Update(
                self.rule_of(name),
                decay=WEIGHT_DECAY * is_decayed(name),
                factor=rates[name] if rates else 1.0,
                skips_overflow=skips_overflow,
            )
            for name in variables
        )
        self._compiled = _compiled_update(self._updates, shapes)

    def rule_of(self, name: str) -> Callable[..., tuple[tf.Tensor, ...]]:
        """Returns the update rule of the variable of this full name."""
        return self.new_values

    def apply(
        self,
        gradients: Sequence[tf.Tensor | None],
        rate: tf.Tensor,
        step: tf.Tensor,
        squares: Mapping[int, tf.Tensor] | None = None,
    ) -> tf.Tensor:
        """Clips the gradients to global norm 1 and updates the variables.

        Call it in replica context with gradients already summed over replicas.
        Returns the global norm before clipping, float32 scalar.

        Args:
          gradients: one for each variable, float32: dense, or
            tf.IndexedSlices if it `takes_slices`; None = the loss does not
            depend on the variable, which keeps its value and its slots,
            without weight decay.
          rate: float32 scalar.
          step: int64 scalar, the number of this update, counted from 1.
          squares: index of a variable with a sparse gradient -> float32
            scalar, the sum of the values' squares before values of the same
            row are added. The original computes the norm from these.

        Source: `optimization.AdamWeightDecayOptimizer.apply_gradients`.
        """
        norm = self._norm(gradients, squares or {})
        # Differs from the original: it clips each replica's gradient before
        # the sum, so that the effective bound grows with the replicas.
        update = self._compiled_on_replicas
        if not self._compiles:
            gradients, update = _clip(gradients, norm), self._update_replicas
        tf.distribute.get_replica_context().merge_call(
            update, args=(gradients, norm, rate, step)
        )
        return norm

    def _compiled_on_replicas(self, strategy, gradients, norm, rate, step):
        """In cross-replica context: each device runs the compiled update."""
        first = strategy.experimental_local_results(self._variables[0])

        def each(value):
            parts = strategy.experimental_local_results(value)
            # None, and what all replicas share, is one value.
            return parts if len(parts) == len(first) else parts * len(first)

        columns = (self._variables, self._m, self._v, gradients)
        rows = [zip(*map(each, column), strict=True) for column in columns]
        figures = map(each, (norm, rate, step))
        for *lists, norm, rate, step in zip(*rows, *figures, strict=True):
            variables, m, v, gradients = map(list, lists)
            place = contextlib.nullcontext()
            if len(first) > 1:
                place = tf.device(variables[0].device)
            with place:
                places = zip(m, v, gradients, strict=True)
                gradients = [_add_rows(*place, norm) for place in places]
                self._compiled(variables, m, v, gradients, norm, rate, step)

    def _update_replicas(self, strategy, gradients, norm, rate, step):
        """In cross-replica context: each device updates its own copy."""
        columns = self._variables, self._m, self._v, gradients, self._updates
        for variable, m, v, gradient, update in zip(*columns, strict=True):
            if gradient is not None:
                args = m, v, gradient, norm, rate, step
                strategy.extended.update(variable, update.apply, args)


def _global_norm(gradients, squares):
    parts = [
        squares[i] if i in squares else 2.0 * tf.nn.l2_loss(gradient)
        for i, gradient in enumerate(gradients)
        if gradient is not None
    ]
    return tf.sqrt(tf.add_n(parts))


@functools.cache
def _compiled_norm(shapes: tuple[tuple[int, ...], ...]) -> Callable:
    """The compiled `_global_norm`, shared as `_compiled_update` is."""
    return tf.function(_global_norm, jit_compile=True, autograph=False)


def _add_rows(m, v, slices, norm):
    """Adds the clipped gradient of some rows to Adam's means.

    Returns 0, the remaining gradient for all rows, whose means still must
    decay; a dense gradient remains as it is.
    """
    if not isinstance(slices, tf.IndexedSlices):
        return slices
    rows, places = tf.unique(slices.indices)
    summed = tf.math.unsorted_segment_sum(slices.values, places, tf.size(rows))
    (clipped,) = _clip([summed], norm)
    means = (m, BETA_1, clipped), (v, BETA_2, tf.square(clipped))
    for mean, beta, value in means:
        mean.scatter_add(tf.IndexedSlices(value * ((1.0 - beta) / beta), rows))
    return tf.zeros([])


def _clip(gradients, norm):
    """Scales gradients with a global norm above 1 to norm 1."""
    return tf.clip_by_global_norm(gradients, CLIP_NORM, use_norm=norm)[0]


class _Update(NamedTuple):
    """How one variable is updated.

    Attributes:
      new_values: the update rule, see `adam_update`.
      decay: weight decay.
      factor: of the learning rate.
      skips_overflow: whether to skip gradients that are not finite.
    """

    new_values: Callable[..., tuple[tf.Tensor, ...]]
    decay: float
    factor: float
    skips_overflow: bool

    def apply(self, variable, m, v, gradient, norm, rate, step):
        """Writes the rule's new values into the variable and its slots."""
        before = [x.read_value() for x in (variable, m, v)]
        rate *= self.factor
        how = {"rate": rate, "weight_decay": self.decay, "step": step}
        after = self.new_values(*before, gradient, **how)
        finite = tf.math.is_finite(norm)
        for x, old, new in zip((variable, m, v), before, after, strict=True):
            x.assign(tf.where(finite, new, old) if self.skips_overflow else new)


@functools.cache
def _compiled_update(
    updates: tuple[_Update, ...], shapes: tuple[tuple[int, ...], ...]
) -> Callable[..., None]:
    """The compiled update, shared by all models of the same shapes.

    Compiled functions stay in memory until the process ends, 30 MB for a model
    of two layers, and several trials would compile the same function again.
    """

    # The shapes are part of the key, because TensorFlow warns of retracing.
    @functools.partial(tf.function, jit_compile=True, autograph=False)
    def apply(variables, m, v, gradients, norm, rate, step):
        columns = variables, m, v, _clip(gradients, norm), updates
        for *slots, gradient, update in zip(*columns, strict=True):
            if gradient is not None:
                update.apply(*slots, gradient, norm, rate, step)

    return apply
