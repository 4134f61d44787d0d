"""Values that a thread has in a `with` block; a new thread has the default."""

import contextlib
import contextvars
from collections.abc import Iterator


@contextlib.contextmanager
def during(variable: contextvars.ContextVar, value: object) -> Iterator[None]:
    """Gives a context variable another value in the `with` block."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)
