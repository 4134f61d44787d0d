"""Text files in, whole files out: the only place that knows how files fail.

Every path goes through `tf.io.gfile`, so that `gs://` works like a local disk.
Files appear whole or not at all: they are written beside their place and
renamed when complete.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence

import tensorflow as tf

# Between a file's name and the process that is writing it.
_INCOMPLETE = ".incomplete-"


def expand_patterns(patterns: str, flag: str = "input_file") -> list[str]:
    """Turns a comma-separated list of files and globs into existing files.

    Args:
      patterns: for example `a.txt,corpus/*.txt`.
      flag: name of the flag the patterns came from, for the error.

    Returns:
      The paths, each pattern's matches sorted, in the order of the patterns.

    Raises:
      FileNotFoundError: a pattern matches nothing.
    """
    paths = []
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        matches = [pattern]  # as it is: a path may hold brackets
        if not tf.io.gfile.exists(pattern):
            found = sorted(tf.io.gfile.glob(pattern))
            matches = [path for path in found if _INCOMPLETE not in path]
        if not matches:
            raise FileNotFoundError(
                f"--{flag}: no file matches {pattern!r} (looked from "
                f"{os.getcwd()}); give an existing file or glob."
            )
        paths.extend(matches)
    if not paths:
        raise FileNotFoundError(f"--{flag} is empty; give a file or a glob.")
    return paths


def read_lines(path: str) -> Iterator[str]:
    r"""Streams the lines of a UTF-8 text file, without their `\n`.

    Only `\n` ends a line: U+2028 or a form feed inside one does not.

    Args:
      path: a text file; a byte-order mark at its start is dropped.

    Yields:
      One string for each line.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line is not UTF-8; names file, line and byte.
    """
    # Differs from the original: undecodable bytes stop the run, because
    # dropping them in silence (errors="ignore") loses text nobody misses
    # until the model is trained.
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        raise FileNotFoundError(f"{path}: no such text file.")
    with tf.io.gfile.GFile(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number}: byte {error.start + 1} of the "
                    f"line is 0x{line[error.start]:02x}, which is not UTF-8; "
                    "convert the file, for example with "
                    "`iconv -f latin1 -t utf-8`."
                ) from None
            if number == 1:
                # Differs from the original: a byte-order mark is no part of
                # the text, because it would make a new word of the first one.
                text = text.removeprefix("\ufeff")
            yield text.removesuffix("\n")


def check_writable(folder: str, flag: str = "output_dir") -> None:
    """Makes a folder and refuses one that cannot be written.

    Args:
      folder: "" is the current one.
      flag: name of the flag it came from, for the error.

    Raises:
      OSError: says where and what to check.
    """
    probe = os.path.join(folder, f".writable-{os.getpid()}")
    try:
        tf.io.gfile.makedirs(folder or ".")
        with tf.io.gfile.GFile(probe, "w") as file:
            file.write("")
        tf.io.gfile.remove(probe)
    except (tf.errors.OpError, OSError) as error:
        raise OSError(
            f"--{flag}: {folder or '.'} cannot be written "
            f"({str(error).splitlines()[0]}); check the path and its "
            "permissions."
        ) from error


def check_outputs(inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Refuses outputs before the work that would fill them.

    Args:
      inputs: files that are read.
      outputs: files to write (--output_file).

    Raises:
      ValueError: no output, one that is an input, or one given twice.
      OSError: a folder cannot be written.
    """
    if not outputs:
        raise ValueError("--output_file is empty; give a path.")
    taken = {os.path.realpath(path): "an input" for path in inputs}
    for path in outputs:
        place = os.path.realpath(path)
        if place in taken:
            raise ValueError(
                f"--output_file: {path} is {taken[place]}, too; give another "
                "path."
            )
        taken[place] = "another output"
    for folder in {os.path.dirname(path) for path in outputs}:
        check_writable(folder, "output_file")


@contextlib.contextmanager
def whole_files(paths: list[str]) -> Iterator[list[str]]:
    """Lets files appear whole, or not at all.

    Args:
      paths: where the finished files shall lie; folders are made.

    Yields:
      As many temporary paths beside them, to be written by the caller. When
      the block ends well they are renamed to `paths`; when it raises they
      are removed and what stood at `paths` before is untouched.

    Raises:
      OSError: a place cannot be written, or the disk is full; says where.
    """
    # The name is the process's own: two runs never share a half-written file.
    temporary = [f"{path}{_INCOMPLETE}{os.getpid()}" for path in paths]
    try:
        for path in paths:
            tf.io.gfile.makedirs(os.path.dirname(path) or ".")
        yield temporary
        for source, path in zip(temporary, paths, strict=True):
            tf.io.gfile.rename(source, path, overwrite=True)
    except (tf.errors.OpError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise OSError(
            f"cannot write {', '.join(paths[:3])}"
            f"{' and others' if len(paths) > 3 else ''}: {error}. Nothing was "
            "changed there; check the folder's permissions and free space."
        ) from error
    finally:
        for source in temporary:
            with contextlib.suppress(tf.errors.OpError):
                if tf.io.gfile.exists(source):
                    tf.io.gfile.remove(source)


def write_text(path: str, text: str) -> None:
    """Writes a UTF-8 text file that appears whole (see `whole_files`)."""
    with whole_files([path]) as (temporary,):
        with tf.io.gfile.GFile(temporary, "w") as file:
            file.write(text)
