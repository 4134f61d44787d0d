"""SIGTERM, which precedes the preemption of a machine: save, then exit.

The program exits with `EXIT_CODE`. The training loop finishes a step, saves and
raises `Preempted`; other long loops call `check`; elsewhere the signal raises
immediately. The state belongs to the signal handler of the process.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType

EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h: try again
# An exception from a signal handler inside their C code has been seen to cause
# "SystemError: bad argument to internal function".
_NOT_INSIDE = ("tensorflow.", "keras.")


class Preempted(SystemExit):
    """SIGTERM was received. It is not an `Exception`, so nothing catches it."""

    def __init__(self):
        super().__init__(EXIT_CODE)


class _Handler:
    """The signal handler."""

    def __init__(self):
        self._pid = os.getpid()
        self.is_deferred = False
        self.is_requested = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a fork exits as by default
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.is_requested = True
        if not self.is_deferred and not _is_inside(frame):
            raise Preempted


def install() -> None:
    """Installs the handler of SIGTERM; call it in the main thread.

    Call it again if a library's C code has replaced the handler: what it knows
    stays.
    """
    # Differs from the original: it loses the work since the last checkpoint,
    # because it does not handle the signal.
    signal.signal(signal.SIGTERM, _handler())


def ignore() -> None:
    """Ignores SIGTERM, because the program is about to exit."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def requested() -> bool:
    """Whether SIGTERM was received."""
    return _handler().is_requested


def check() -> None:
    """Raises `Preempted` if SIGTERM was received and is not deferred."""
    if requested() and not _handler().is_deferred:
        raise Preempted


@contextlib.contextmanager
def deferred(value: bool = True) -> Iterator[None]:
    """A block that SIGTERM does not interrupt; it calls `requested` itself.

    `value` False = one that it interrupts, see `heeded`.
    """
    handler = _handler()
    check()  # before this block
    before, handler.is_deferred = handler.is_deferred, value
    try:
        check()
        yield
    finally:
        handler.is_deferred = before
    check()  # the signal may have arrived at the end of the block


def heeded() -> contextlib.AbstractContextManager[None]:
    """Inside `deferred`, a block that SIGTERM interrupts with `Preempted`."""
    return deferred(False)


def _handler() -> _Handler:
    """The installed handler, or a new one, which nothing calls."""
    handler = signal.getsignal(signal.SIGTERM)
    return handler if isinstance(handler, _Handler) else _Handler()


def _is_inside(frame: FrameType | None) -> bool:
    """Whether code of a library that must not be interrupted is running."""
    while frame:
        if frame.f_globals.get("__name__", "").startswith(_NOT_INSIDE):
            return True
        frame = frame.f_back
    return False
