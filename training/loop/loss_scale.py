"""Loss scaling, without which small gradients become 0 in float16."""

import tensorflow as tf

from modeling.checkpoints.tf1 import LOSS_SCALE, LOSS_SCALE_GOOD_STEPS

START = 2.0**15
LEAST = 1.0
STEPS_TO_DOUBLE = 2000


class LossScale:
    """What the loss is multiplied by, and gradients divided by again.

    It is halved where a gradient is not finite, and doubled after 2000
    updates in a row that were. Powers of two: a float32 gradient is scaled
    without rounding. Create it in the strategy's scope.

    Attributes:
      value: float32 scalar variable.
      saved: name -> variable, what a checkpoint holds of it.

    Source: Micikevicius et al., "Mixed Precision Training", arXiv:1710.03740,
      section 3.2.
    """

    def __init__(self):
        # Every replica computes the same values.
        self.value, self._good_steps = (
            tf.Variable(
                start,
                trainable=False,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )
            for start in (START, 0.0)
        )
        self.saved = {
            LOSS_SCALE: self.value,
            LOSS_SCALE_GOOD_STEPS: self._good_steps,
        }

    def update(self, finite: tf.Tensor) -> None:
        """Counts an update; call it in replica context.

        Args:
          finite: bool scalar, whether all gradients of all replicas were.
        """
        good = tf.where(finite, self._good_steps + 1.0, 0.0)
        doubles = good >= STEPS_TO_DOUBLE
        factor = tf.where(finite, tf.where(doubles, 2.0, 1.0), 0.5)
        self.value.assign(tf.maximum(self.value * factor, LEAST))
        self._good_steps.assign(tf.where(doubles, 0.0, good))
