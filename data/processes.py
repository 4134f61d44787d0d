"""Processes that work on tasks side by side, and stop when asked to.

They are started afresh (spawn): they hold what the task imports, and nothing
that the parent happens to have in memory. They end with their parent, however
it ends.
"""

import concurrent.futures
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

# How often progress is looked at, and whether to stop.
_POLL_S = 0.5
# How long a worker that shall stop may take to tidy up.
_GRACE_S = 3.0

# advance(bytes, examples): what a task calls as it goes on.
Advance = Callable[[int, int], None]


class Workers:
    """Some processes; use it as a context manager.

    Args:
      num_processes: 1 = no other process, all is done by this one.
    """

    def __init__(self, num_processes: int):
        self._executor = None
        if num_processes > 1:
            context = multiprocessing.get_context("spawn")
            # No Event: who is killed while it looks at one stops all others.
            self._stop = context.RawValue("b", 0)
            self._counts = context.Array("q", 2)
            self._executor = concurrent.futures.ProcessPoolExecutor(
                num_processes,
                mp_context=context,
                initializer=_begin,
                initargs=(self._stop, self._counts),
            )

    def map(
        self, function: Callable[..., Any], *items: Iterable[Any]
    ) -> Iterator[Any]:
        """Does what the built-in `map` does, on all processes.

        Raises:
          OSError: a process was killed.
        """
        if not self._executor:
            yield from map(function, *items)
            return
        try:
            yield from self._executor.map(function, *items)
        except BrokenProcessPool:
            raise _killed() from None

    def run(
        self,
        function: Callable[[Any, Advance], Any],
        tasks: Iterable[Any],
        advance: Advance,
    ) -> Iterator[Any]:
        """Calls `function(task, advance)` for all tasks.

        Args:
          function: of a module, so that a process can import it.
          tasks: its arguments.
          advance: told of progress, here, of all processes together.

        Yields:
          The results, as they come.

        Raises:
          OSError: a process was killed.
        """
        if not self._executor:
            for task in tasks:
                yield function(task, advance)
            return
        waiting = {self._executor.submit(_call, function, t) for t in tasks}
        told = [0, 0]
        while waiting:
            done, waiting = concurrent.futures.wait(
                waiting, _POLL_S, concurrent.futures.FIRST_COMPLETED
            )
            counts = list(self._counts.get_obj())  # whoever holds its lock
            advance(counts[0] - told[0], counts[1] - told[1])
            told = counts
            for future in done:
                try:
                    yield future.result()
                except BrokenProcessPool:
                    raise _killed() from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._executor:
            self._stop.value = 1
            self._executor.shutdown(cancel_futures=True)


def _killed() -> OSError:
    return OSError(
        "a worker process was killed, probably because memory ran out; run "
        "the same command with a smaller --num_processes."
    )


class _Stopped(Exception):
    """The run is over; nobody waits for this task."""


# In a worker: whether to stop, and what all workers have done.
_stop = _counts = None


def _begin(stop, counts) -> None:
    """Prepares a worker process."""
    global _stop, _counts
    _stop, _counts = stop, counts
    # ^C reaches the parent, which says when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_in_time, daemon=True).start()


def _end_in_time() -> None:
    """Ends this process with its parent, or soon after it shall stop."""
    parent = multiprocessing.parent_process()
    while parent.is_alive() and not _stop.value:
        parent.join(_POLL_S)
    parent.join(_GRACE_S)
    os._exit(1)


def _call(function, task):
    """Runs one task in a worker."""
    return function(task, _advance)


def _advance(num_bytes: int, num_examples: int) -> None:
    if _stop.value:
        raise _Stopped
    with _counts.get_lock():
        _counts[0] += num_bytes
        _counts[1] += num_examples
