"""Loads TensorFlow without the messages that concern no device in use.

On a machine without a GPU, TensorFlow prints a dozen lines to standard error,
among them an error of CUDA.
"""

import contextlib
import glob
import os
import signal
from collections.abc import Callable, Iterator

from data.storage import cuda

# 0 = all, 1 = without "I", 2 = without "W", 3 = without "E".
LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_USUAL = "1"  # what `load` sets
# Of NVIDIA's driver, and of the one inside WSL.
_GPUS = ("/dev/nvidia*", "/dev/dxg")
_SHOW, _HIDE = b"\0show", b"\0hide"


def load(is_verbose: bool = False) -> None:
    """Imports TensorFlow and finds the devices.

    A message of level "I" is hidden from now on, in child processes too. On a
    machine without a GPU, everything that TensorFlow prints while it is
    imported is hidden as well, unless the import fails.

    Args:
      is_verbose: whether to hide nothing. Nothing is hidden either if the
        environment has `LEVEL`, unless it is that of a parent process.
    """
    level = os.environ.setdefault(LEVEL, _USUAL)
    if is_verbose and level == _USUAL:
        level = os.environ[LEVEL] = "0"
    hides = level == _USUAL and not any(map(glob.glob, _GPUS))
    cuda.find()
    with _held_back() if hides else contextlib.nullcontext():
        import tensorflow as tf

        # To look for a GPU is what prints the error of CUDA.
        tf.config.list_physical_devices()


@contextlib.contextmanager
def _held_back() -> Iterator[None]:
    """Hides standard error, unless the block raises or kills the process."""
    shown = os.dup(2)
    child = to_child(_hold)
    verdict = _SHOW
    try:
        yield
        verdict = _HIDE
    finally:
        with contextlib.suppress(BrokenPipeError):  # someone killed the child
            os.write(2, verdict)
        os.dup2(shown, 2)
        os.close(shown)
        os.waitpid(child, 0)


def to_child(read: Callable[[int], None]) -> int:
    """Sends standard error to a child process; returns its id.

    There `read` takes the end of a pipe, and standard error is as before.
    TensorFlow ends a process itself on a processor that lacks instructions, and
    what it has written is not lost in another one.
    """
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.close(writer)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        read(reader)
        os._exit(0)
    os.close(reader)
    os.dup2(writer, 2)
    os.close(writer)
    return child


def _hold(reader: int) -> None:
    """Reads until the verdict, or until the writer has died."""
    text = b""
    while chunk := os.read(reader, 1 << 16):
        text += chunk
        if text.endswith((_SHOW, _HIDE)):
            break
    if not text.endswith(_HIDE):
        os.write(2, text.removesuffix(_SHOW))
