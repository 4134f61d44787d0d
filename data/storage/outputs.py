"""Checks the files that a command writes, before the work starts."""

import os
from collections.abc import Mapping, Sequence

from data.storage import files

# Flag -> paths of its files.
Named = Mapping[str, Sequence[str]]


def check(inputs: Named, outputs: Named) -> None:
    """Refuses outputs that cannot be written or would replace an input.

    Both are flag -> paths. Raises ValueError if there is no output, an output
    is also an input, perhaps by a link, or given twice; OSError if one cannot
    be written.
    """
    taken = {_identity(path): flag for flag in inputs for path in inputs[flag]}
    for flag, paths in outputs.items():
        if not paths or not all(paths):
            raise ValueError(f"--{flag} is empty; give a path.")
        for path in paths:
            identity = _identity(path)
            if identity in taken:
                raise ValueError(
                    f"--{flag}: {path} is a file of --{taken[identity]}, too; "
                    "give another path."
                )
            if files.is_folder(path) or path.endswith("/"):
                raise ValueError(
                    f"--{flag}: {path} is a folder; give the path of a file."
                )
            taken[identity] = flag
    for flag, paths in outputs.items():
        _check_writable(flag, paths)


def are_same(path: str, other: str) -> bool:
    """Whether two paths lead to the same file or folder, perhaps by a link."""
    return _identity(path) == _identity(other)


def _identity(path: str) -> object:
    """Returns a value that is equal for two paths of one file."""
    if "://" in path:
        return path
    if not os.path.exists(path):
        return os.path.realpath(path)
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _check_writable(flag: str, paths: Sequence[str]) -> None:
    """Raises OSError if a device, or the folder of a file, is not writable."""
    streams = set(filter(files.is_stream, paths))
    for path in streams:
        if not os.access(path, os.W_OK):
            raise OSError(
                f"--{flag}: {path} cannot be written; check its permissions."
            )
    places = map(files.place_of, set(paths) - streams)
    for folder in set(map(os.path.dirname, places)):
        files.check_writable(folder, flag)
