"""LAMB: Adam with a trust ratio for each variable."""

import math

import tensorflow as tf

from training.loop import optimizers


@optimizers.accepts_rows
def lamb_update(param, m, v, grad, *, rate, weight_decay, step):
    """One LAMB step: Adam with bias correction, times the trust ratio.

    The ratio is |param| / |direction| of the whole variable, or 1 if either is
    0. Variables without weight decay (biases, layer norm) have ratio 1, as in
    the authors' code; the paper does not mention them.

    Arguments and results are those of `optimizers.adam_update`; `step` is the
    number of this update, an integer scalar counted from 1.

    Source: You et al., "Large Batch Optimization for Deep Learning: Training
      BERT in 76 minutes", arXiv:1904.00962, algorithm 2.
    """
    m = optimizers.BETA_1 * m + (1.0 - optimizers.BETA_1) * grad
    v = optimizers.BETA_2 * v + (1.0 - optimizers.BETA_2) * tf.square(grad)
    mean = m / _one_minus_power(optimizers.BETA_1, step)
    square = v / _one_minus_power(optimizers.BETA_2, step)
    direction = mean / (tf.sqrt(square) + optimizers.EPSILON)
    if weight_decay:
        direction += weight_decay * param
        length, moved = tf.norm(param), tf.norm(direction)
        ratio = tf.math.divide_no_nan(length, moved)
        rate *= tf.where((length > 0.0) & (moved > 0.0), ratio, 1.0)
    return param - rate * direction, m, v


def _one_minus_power(base: float, step: tf.Tensor) -> tf.Tensor:
    """1 - base^step, without the cancellation of 1 - 0.999."""
    return -tf.math.expm1(tf.cast(step, tf.float32) * math.log(base))


class Lamb(optimizers.AdamWeightDecay):
    """LAMB with the slots, names, decay and clipping of `AdamWeightDecay`."""

    new_values = staticmethod(lamb_update)
