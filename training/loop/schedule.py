"""Where a run stands between its beginning and its end: in steps, or time."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from training.config.options import TrainOptions
from training.devices.strategy import all_workers


class Schedule:
    """Says when training ends and for which step the learning rate is.

    With num_train_minutes the clock stands in for the step: halfway through
    the time it is that of num_train_steps / 2. In between two looks at the
    clock, updates are taken to last as long as the last ones did. All workers
    must call the methods at the same points; the slowest one's clock holds.

    Args:
      options: of the loop.
      seconds: of training before a resume.
      clock: seconds, from any zero.
      strategy: of the workers.
    """

    def __init__(
        self,
        options: TrainOptions,
        *,
        seconds: float,
        clock: Callable[[], float],
        strategy: tf.distribute.Strategy,
    ):
        self._strategy = strategy
        self._options = options
        self._budget = 60.0 * options.num_train_minutes
        self._clock = clock
        self._began = clock() - seconds
        self._looked = seconds
        self._seconds_per_step = 0.0  # until known

    @property
    def seconds(self) -> float:
        """Of training until now: what the next start goes on from."""
        # Not this worker's clock alone: by it a finished run might not be.
        return max(self._looked, self._own_seconds())

    def is_over(self, step: int) -> bool:
        """Whether the update of this number was the last one."""
        if not self._budget:
            return step >= self._options.last_step
        return self._look() >= self._budget

    def steps_left(self, step: int) -> int:
        """Updates to the end after this one, 1 at least; by time, a guess."""
        if not self._budget:
            return max(1, self._options.last_step - step)
        left = self._budget - self._look()
        if not self._seconds_per_step:
            return 1
        return max(1, int(left / self._seconds_per_step))

    def positions(self, step: int) -> np.ndarray:
        """For which steps the learning rate of the next updates is.

        Args:
          step: of the last update; `steps_left` has just been called with it.

        Returns:
          Float32 [2]: the first update's, and how much further each one is.
        """
        if not self._budget:
            return np.array([step + 1, 1], np.float32)
        steps_per_second = self._options.num_train_steps / self._budget
        pace = steps_per_second * self._seconds_per_step
        first = steps_per_second * self._looked + pace
        return np.array([first, pace], np.float32)

    def measured(self, seconds_per_step: float) -> None:
        """Tells how long the last updates took, on the slowest worker."""
        self._seconds_per_step = seconds_per_step

    def _look(self) -> float:
        seconds = all_workers(self._strategy, [self._own_seconds()])
        self._looked = float(seconds.max())
        return self._looked

    def _own_seconds(self) -> float:
        """Of training until now, by this worker's clock."""
        return self._clock() - self._began
