"""The end of a run and its learning-rate schedule, in steps or in minutes."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from training.config.run_options import TrainOptions
from training.devices.strategy import all_workers


class Schedule:
    """The end of training and the schedule position of each update.

    With num_train_minutes, the position follows the clock: halfway through the
    time it is num_train_steps / 2. Between two readings of the clock, updates
    are assumed to take as long as the last ones. All workers must call the
    methods at the same points; the slowest worker's clock counts. `seconds` is
    the time trained before a resume; `clock` returns seconds; `share` ends the
    training earlier, after a part of its steps or minutes.

    Attributes:
      seconds_per_step: duration of an update on the slowest worker, which the
        caller measures; 0 = unknown, before the first call.
    """

    def __init__(
        self,
        options: TrainOptions,
        seconds: float,
        clock: Callable[[], float],
        share: float = 1.0,
    ):
        self._strategy = tf.distribute.get_strategy()
        self._options = options
        self._budget = 60.0 * options.num_train_minutes
        part = round(share * options.num_train_steps)
        self._last_step = min(part, options.last_step)
        self._last_second = share * self._budget
        self._clock = clock
        self._began = clock() - seconds
        self._looked = seconds
        self.seconds_per_step = 0.0

    @property
    def seconds(self) -> float:
        """Duration of training so far, including the time before a resume."""
        # By this worker's clock alone, a finished run may seem unfinished.
        return max(self._looked, self._own_seconds())

    def is_over(self, step: int) -> bool:
        """Whether the update of this number was the last one."""
        return self._left(step) <= 0

    def steps_left(self, step: int) -> int:
        """Remaining updates, at least 1; by the clock, an estimate."""
        left, pace = self._left(step), self.seconds_per_step
        if self._budget:
            left = left / pace if pace else 1
        return max(1, int(left))

    def positions(self, step: int) -> np.ndarray:
        """Returns the next update's position and the increment per update.

        It is float32 [2]. `steps_left` has just been called with `step`, the
        number of the last update.
        """
        if not self._budget:
            return np.array([step + 1, 1], np.float32)
        steps_per_second = self._options.num_train_steps / self._budget
        pace = steps_per_second * self.seconds_per_step
        first = steps_per_second * self._looked + pace
        return np.array([first, pace], np.float32)

    def _left(self, step: int) -> float:
        """Remaining updates; with num_train_minutes, seconds."""
        if not self._budget:
            return self._last_step - step
        seconds = all_workers(self._strategy, [self._own_seconds()])
        self._looked = float(seconds.max())
        return self._last_second - self._looked

    def _own_seconds(self) -> float:
        """Duration of training so far, by this worker's clock."""
        return self._clock() - self._began
