"""Runs tasks on several processes.

The processes are spawned: they import what the task needs and share no memory
with the parent. They end when the parent ends, even if it is killed.
"""

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from absl import logging

# Interval of progress reports and of checks whether to stop.
_POLL_S = 0.5
# Time that a worker has to clean up before it is stopped.
_GRACE_S = 3.0

# advance(bytes, examples): a task reports its progress.
Advance = Callable[[int, int], None]


class Workers(contextlib.AbstractContextManager):
    """A pool of worker processes, which ends with the block.

    With `num_processes` 1, tasks run in this process, unless `apart`. If a
    worker is killed, the block ends with an OSError.
    """

    def __init__(self, num_processes: int, *, apart: bool = False):
        self._executor = None
        if num_processes > 1 or apart:
            context = multiprocessing.get_context("spawn")
            # Not an Event: a process that is killed while it reads an Event
            # blocks all others.
            self._stop = context.RawValue("b", 0)
            self._counts = context.Array("q", 2)
            self._executor = concurrent.futures.ProcessPoolExecutor(
                num_processes,
                mp_context=context,
                initializer=_begin,
                initargs=(self._stop, self._counts, logging.get_verbosity()),
            )

    def map(
        self, function: Callable[..., Any], *items: Iterable[Any]
    ) -> Iterator[Any]:
        """Equals the built-in `map`, but runs on all processes."""
        run = self._executor.map if self._executor else map
        return run(function, *items)

    def run(
        self,
        function: Callable[[Any, Advance], Any],
        tasks: Iterable[Any],
        advance: Advance,
    ) -> Iterator[Any]:
        """Yields `function(task, advance)` of all tasks, as they are completed.

        A process can import the function, a module's. `advance` is called in
        this process with the progress of all processes.
        """
        if not self._executor:
            for task in tasks:
                yield function(task, advance)
            return
        waiting = {self._executor.submit(function, t, _advance) for t in tasks}
        told = [0, 0]
        while waiting:
            done, waiting = concurrent.futures.wait(
                waiting, _POLL_S, concurrent.futures.FIRST_COMPLETED
            )
            counts = list(self._counts.get_obj())  # needs no lock
            advance(counts[0] - told[0], counts[1] - told[1])
            told = counts
            for future in done:
                yield future.result()

    def stop(self) -> None:
        """Ends the processes; a task that is nearly done is finished."""
        if self._executor:
            self._stop.value = 1
            try:
                self._executor.shutdown(cancel_futures=True)
            except RuntimeError:
                # A signal came while the pool's thread was starting.
                time.sleep(_POLL_S)
                self._executor.shutdown()

    def __exit__(self, kind, *_):
        self.stop()
        if kind is BrokenProcessPool:
            raise OSError(
                "a worker process was killed, probably because memory ran out; "
                "run the command again, if it can with fewer --num_processes."
            ) from None


class _Stopped(Exception):
    """The run has ended and does not need the task's result."""


# In a worker: whether to stop, and the progress of all workers.
_stop = _counts = None


def _begin(stop, counts, verbosity) -> None:
    global _stop, _counts
    _stop, _counts = stop, counts
    logging.use_absl_handler()
    logging.set_verbosity(verbosity)
    # ^C also reaches the parent, which stops the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_in_time, daemon=True).start()


def _end_in_time() -> None:
    """Ends this process when the parent ends or stops the workers."""
    parent = multiprocessing.parent_process()
    while parent.is_alive() and not _stop.value:
        parent.join(_POLL_S)
    parent.join(_GRACE_S)
    os._exit(1)


def _advance(num_bytes: int, num_examples: int) -> None:
    """Reports progress from a worker."""
    if _stop.value:
        raise _Stopped
    with _counts.get_lock():
        _counts[0] += num_bytes
        _counts[1] += num_examples
