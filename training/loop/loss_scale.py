"""Loss scaling, which keeps small gradients from becoming 0 in float16."""

import tensorflow as tf

from modeling.checkpoints.tf1 import LOSS_SCALE, LOSS_SCALE_GOOD_STEPS

START = 2.0**15
LEAST = 1.0
STEPS_TO_DOUBLE = 2000


class LossScale:
    """The factor of the loss; the gradients are divided by it again.

    It is halved if a gradient is not finite, and doubled after 2000 finite
    updates in a row. It is a power of two, so that float32 gradients are scaled
    without rounding. Create it in the strategy's scope.

    Attributes:
      value: float32 scalar variable.
      saved: name -> variable, for the checkpoint.

    Source: Micikevicius et al., "Mixed Precision Training", arXiv:1710.03740,
      section 3.2.
    """

    def __init__(self):
        # Every replica computes the same values.
        one_of_them = tf.VariableAggregation.ONLY_FIRST_REPLICA
        starts = {LOSS_SCALE: START, LOSS_SCALE_GOOD_STEPS: 0.0}
        self.saved = {
            name: tf.Variable(start, trainable=False, aggregation=one_of_them)
            for name, start in starts.items()
        }
        self.value, self._good_steps = self.saved.values()

    def update(self, finite: tf.Tensor) -> None:
        """Counts an update; call it in replica context.

        `finite` is a bool scalar: all gradients of all replicas are finite.
        """
        good = tf.where(finite, self._good_steps + 1.0, 0.0)
        doubles = good >= STEPS_TO_DOUBLE
        factor = tf.where(finite, tf.where(doubles, 2.0, 1.0), 0.5)
        self.value.assign(tf.maximum(self.value * factor, LEAST))
        self._good_steps.assign(tf.where(doubles, 0.0, good))
