"""A folder that one run at a time may write to.

The lock is the kernel's (`lockf`): it goes with the process that holds it,
however that ends, and is not inherited by others.
"""

import contextlib
import errno
import fcntl
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterator

from absl import logging

_NAME = ".lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
# Folders of this process, and how often it has each. The state of a process, as
# the lock itself: to open and close its file a second time would release it.
_held: dict[tuple[int, str], int] = {}


@contextlib.contextmanager
def sole_use(folder: str, flag: str = "output_dir") -> Iterator[None]:
    """Keeps other runs off a folder as long as the block lasts.

    Nothing in the folder is touched before. A process may use it within itself.
    The hidden file `.lock` says who holds it; one that a killed run left behind
    means nothing.

    Args:
      folder: made if it is not there; one of `tf.io.gfile` (`gs://...`) is not
        locked.
      flag: name of the flag it came from, for the errors.

    Raises:
      OSError: another run has it, and since when; or it cannot be written.
    """
    if "://" in folder:
        yield
        return
    key = os.getpid(), os.path.realpath(folder)
    if _held.get(key):
        _held[key] += 1
        try:
            yield
        finally:
            _held[key] -= 1
        return
    path = os.path.join(folder, _NAME)
    try:
        os.makedirs(folder or ".", exist_ok=True)
        file = _open_locked(path)
    except BlockingIOError:
        raise OSError(
            f"--{flag}: {folder or '.'} is in use by {_holder(path)}. Wait "
            "until it ends, or stop it (kill PID: a training run saves first); "
            f"or give another --{flag}."
        ) from None
    except OSError as error:
        raise OSError(
            f"--{flag}: {folder or '.'} cannot be written ({error}); check the "
            "path, its permissions and free space."
        ) from error
    _held[key] = 1
    try:
        yield
    finally:
        del _held[key]
        if file is not None:
            with contextlib.suppress(OSError):
                os.remove(path)
            os.close(file)


def _open_locked(path: str) -> int | None:
    """Opens and locks a file; None = its file system knows no locks.

    Raises:
      BlockingIOError: another process has it.
      OSError: it cannot be written.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Who had it may just have removed it: then it is nobody's file.
            if _is_same(file, path):
                _sign(file)
                return file
        except OSError as error:
            os.close(file)
            if error.errno == errno.EACCES:  # as POSIX allows, too
                raise BlockingIOError from error
            if error.errno not in _NO_LOCKS:
                raise
            logging.warning(
                "%s: this file system has no locks (%s): nothing keeps a "
                "second run off this folder. Do not start one.",
                path,
                os.strerror(error.errno),
            )
            return None
        os.close(file)


def _is_same(file: int, path: str) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _sign(file: int) -> None:
    """Says in the file who has it."""
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    command = shlex.join(sys.argv)
    text = (
        f"process {os.getpid()} on {socket.gethostname()} since {since}: "
        f"{command[:500]}\n"
    )
    os.ftruncate(file, 0)
    os.pwrite(file, text.encode("utf-8", "replace"), 0)


def _holder(path: str) -> str:
    """Who has the lock of a file."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        if text := file.read().decode("utf-8", "replace").strip():
            return text
    return "another process"
