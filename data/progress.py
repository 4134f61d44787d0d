"""Shows the progress of long work: in a terminal, a notebook or a log."""

import contextlib
import logging as standard
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from absl import logging
from tqdm import tqdm

_MOMENT = 2.0  # seconds

T = TypeVar("T")


class Progress(contextlib.AbstractContextManager):
    """Counts finished work and shows it.

    On a terminal it is a bar with the rate and the remaining time, and in a
    notebook too if the work takes longer than a moment. Otherwise it is a log
    line at most every `seconds` and one at the end; where the log is not shown,
    as in a script, it is printed if the work takes longer than a moment. A
    `total` of None is unknown; `initial` units were finished before this run;
    `unit` is in the plural.
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
        # 80 x 24 for terminals without a size.
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
        """Counts units finished since the last call; shows `figures`, too."""
        self._done += count
        self._figures = figures
        if not self._bar.disable:
            self._bar.set_postfix_str(figures, refresh=False)
            self._bar.update(count)
        elif time.monotonic() - self._last_line >= self._seconds:
            # The rate since the last line: the start may have been slower.
            self._write_line(self._shown, self._last_line)

    def _write_line(self, initial: int, start: float) -> None:
        now = time.monotonic()
        self._last_line = now
        self._shown = self._done
        rate = (self._done - initial) / max(now - start, 1e-9)
        line = f"{self._description}: {self._done:,}"
        if self._total is not None:
            line += f"/{self._total:,}"
        line += f" {self._unit}, {rate:.4g} {self._unit}/s"
        if self._total is not None and rate:
            seconds = (self._total - self._done) / rate
            line += f", {tqdm.format_interval(seconds)} left"
        if self._figures:
            line += f", {self._figures}"
        if logging.get_absl_logger().isEnabledFor(standard.INFO):
            logging.info("%s", line)
        elif now - self._start > _MOMENT:  # a script that shows no log
            print(line, file=sys.stderr, flush=True)

    def __exit__(self, *_):
        if self._bar.disable and self._done > self._shown:
            self._write_line(self._initial, self._start)
        self._bar.close()


def tracked(
    items: Iterable[T], description: str, unit: str, total: int | None = None
) -> Iterator[T]:
    """Yields items and shows the progress; `total` is known of a list."""
    total = len(items) if isinstance(items, Sized) else total
    with Progress(description, total=total, unit=unit) as progress:
        for item in items:
            yield item
            progress.advance()
