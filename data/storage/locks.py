"""Locks a folder, so that only one run at a time writes to it.

The lock is the kernel's (`lockf`): it ends with the process that holds it,
and child processes do not inherit it. The package `filelock` is not used,
because it leaves its file behind.
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

NAME = ".lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
# Process and folder of each lock. A folder is not locked again within, because
# closing the file a second time would release the lock.
_held: set[tuple[int, str]] = set()


@contextlib.contextmanager
def sole_use(folder: str) -> Iterator[None]:
    """Locks a folder while the block runs; OSError if another run has the lock.

    A process can lock a folder more than once. The hidden file `.lock` names
    the process that holds the lock. A killed run leaves this file behind, but
    it does not keep the lock. A missing folder is created, and removed at the
    end if it then holds no file; a path of `tf.io.gfile` (`gs://...`) is not
    locked.
    """
    # Differs from the original: two runs in one folder would mix their files.
    key = os.getpid(), os.path.realpath(folder)
    if "://" in folder or key in _held:
        yield
        return
    path = os.path.join(folder, NAME)
    made = _first_missing(key[1])
    try:
        file = _open_locked(path)
        _sign(file)
    except BlockingIOError:
        raise OSError(
            f"--output_dir: {folder or '.'} is in use by {_holder(path)}. Wait "
            "until it ends, or stop it (kill PID: a training run saves first); "
            "or give another --output_dir."
        ) from None
    except OSError as error:
        raise OSError(
            f"--output_dir: {folder or '.'} cannot be written ({error}); check "
            "the path, its permissions and free space."
        ) from error
    _held.add(key)
    try:
        yield
    finally:
        _held.discard(key)
        with contextlib.suppress(OSError):
            os.remove(path)
        os.close(file)
        with contextlib.suppress(OSError):
            _remove_empty(made)


def _first_missing(folder: str) -> str | None:
    """Returns the uppermost folder of a path that does not exist."""
    missing = None
    while not os.path.lexists(folder):
        missing, folder = folder, os.path.dirname(folder)
    return missing


def _remove_empty(folder: str | None) -> None:
    """Removes a folder with those in it, if they hold no file."""
    tree = list(os.walk(folder, topdown=False)) if folder else []
    if not any(names for _, _, names in tree):
        for path, *_ in tree:
            os.rmdir(path)


def _open_locked(path: str) -> int:
    """Opens and locks a file; warns if its file system has no locks.

    Raises BlockingIOError if another process holds the lock.
    """
    while True:
        # The previous holder may have removed the folder with its lock.
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(file)
                raise
            logging.warning(
                f"{path}: this file system has no locks "
                f"({os.strerror(error.errno)}): start no second run here."
            )
        # The previous holder may just have removed this file: then another
        # process can create and lock a new one.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), os.stat(path)):
                return file
        os.close(file)


def _sign(file: int) -> None:
    """Writes the process that holds the lock into its file."""
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    text = (
        f"process {os.getpid()} on {socket.gethostname()} since {since}: "
        f"{shlex.join(sys.argv)[:500]}\n"
    )
    os.ftruncate(file, 0)
    os.pwrite(file, text.encode("utf-8", "replace"), 0)


def _holder(path: str) -> str:
    """Returns the process that holds the lock of a file."""
    with contextlib.suppress(OSError), open(path, errors="replace") as file:
        if text := file.read().strip():
            return text
    return "another process"
