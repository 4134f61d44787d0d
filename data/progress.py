"""Progress of long work: a bar on a terminal or in a notebook, or log lines."""

import shutil
import sys
import time

from absl import logging
from tqdm import tqdm

_MOMENT = 2.0  # seconds


class Progress:
    """Counts work done and shows it.

    Use it as a context manager. On a terminal it is a bar with rate and time
    left, and in a notebook if the work takes longer than a moment; elsewhere
    one log line every `seconds`, and one at the end.

    Args:
      description: what is being done, such as `pretraining`.
      total: units in all; None = unknown.
      initial: units done before this run.
      unit: what is counted, in the plural, such as `steps`.
      seconds: least time between two log lines.
    """

    def __init__(
        self,
        description: str,
        *,
        total: int | None = None,
        initial: int = 0,
        unit: str = "",
        seconds: float = 10.0,
    ):
        self._description = description
        self._unit = unit
        self._seconds = seconds
        self._total = total
        self._initial = initial
        self._done = self._shown = initial
        self._figures = ""
        self._start = self._last_line = time.monotonic()
        # Some terminals say they have no size; this gives them 80 x 24.
        columns, lines = shutil.get_terminal_size()
        is_terminal = sys.stderr.isatty()
        self._bar = tqdm(
            total=total,
            initial=initial,
            desc=description,
            unit=f" {unit}",
            ncols=columns,
            nrows=lines,
            delay=0 if is_terminal else _MOMENT,
            disable=not is_terminal and "ipykernel" not in sys.modules,
        )

    def advance(self, count: int = 1, figures: str = "") -> None:
        """Counts work done.

        Args:
          count: units done since the last call.
          figures: what else to show, such as `loss=2.31`.
        """
        self._done += count
        self._figures = figures
        if not self._bar.disable:
            self._bar.set_postfix_str(figures, refresh=False)
            self._bar.update(count)
        elif time.monotonic() - self._last_line >= self._seconds:
            self._write_line()

    def _write_line(self) -> None:
        now = time.monotonic()
        self._last_line = now
        self._shown = self._done
        rate = (self._done - self._initial) / max(now - self._start, 1e-9)
        of_total = left = ""
        if self._total is not None:
            of_total = f"/{self._total:,}"
            if rate:
                seconds = (self._total - self._done) / rate
                left = f", {tqdm.format_interval(seconds)} left"
        logging.info(
            "%s: %s%s %s, %.4g %s/s%s%s",
            self._description,
            f"{self._done:,}",
            of_total,
            self._unit,
            rate,
            self._unit,
            left,
            f", {self._figures}" if self._figures else "",
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._bar.disable and self._done > self._shown:
            self._write_line()
        self._bar.close()
