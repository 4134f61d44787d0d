"""SIGTERM, by which a machine takes back what it lent: saved, then ended.

The program ends with `EXIT_CODE`. The loop waits for the end of a step, saves,
and raises `Preempted`; whatever takes long beside it asks `check` now and then;
elsewhere the signal raises at once. The state is in the signal's handler, which
Python keeps, and so one per process.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType

EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h: try again
# Their code in C does not expect an exception from nowhere: it has been seen
# to end in "SystemError: bad argument to internal function".
_NOT_INSIDE = ("tensorflow.", "keras.")


class Preempted(SystemExit):
    """SIGTERM has come. No error: no `except Exception` holds it up."""

    def __init__(self):
        super().__init__(EXIT_CODE)


class _Handler:
    """What SIGTERM does."""

    def __init__(self):
        self._pid = os.getpid()
        self.is_deferred = False
        self.is_requested = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a fork, which ends as any process does
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.is_requested = True
        if not self.is_deferred and not _is_inside(frame):
            raise Preempted


def install() -> None:
    """Makes SIGTERM end this process in order; for the main thread alone."""
    signal.signal(signal.SIGTERM, _Handler())


def ignore() -> None:
    """Leaves SIGTERM without effect: the program is about to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def requested() -> bool:
    """Whether SIGTERM has come; the loop asks after every call."""
    handler = _handler()
    return bool(handler and handler.is_requested)


def check() -> None:
    """Raises `Preempted` if SIGTERM has come, and is not deferred."""
    handler = _handler()
    if handler and handler.is_requested and not handler.is_deferred:
        raise Preempted


def deferred() -> contextlib.AbstractContextManager[None]:
    """A block that SIGTERM does not break; it asks `requested` itself."""
    return _deferring(True)


def heeded() -> contextlib.AbstractContextManager[None]:
    """Inside `deferred`, a block that SIGTERM breaks with `Preempted`."""
    return _deferring(False)


@contextlib.contextmanager
def _deferring(value: bool) -> Iterator[None]:
    handler = _handler()
    if not handler:
        yield
        return
    check()  # before this block
    before, handler.is_deferred = handler.is_deferred, value
    try:
        check()
        yield
    finally:
        handler.is_deferred = before
    check()  # after the block has last asked


def _handler() -> _Handler | None:
    """The handler, if this process has one."""
    handler = signal.getsignal(signal.SIGTERM)
    return handler if isinstance(handler, _Handler) else None


def _is_inside(frame: FrameType | None) -> bool:
    """Whether code of a library that must not be broken is running."""
    while frame:
        if frame.f_globals.get("__name__", "").startswith(_NOT_INSIDE):
            return True
        frame = frame.f_back
    return False
