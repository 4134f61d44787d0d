"""Text files in, whole files out: the only place that knows how files fail.

A local path goes to the operating system; one with a scheme, such as
`gs://bucket/name`, to `tf.io.gfile`. TensorFlow (3 s, 0.5 GB) is imported only
for those. Files appear whole or not at all: they are written beside their place
and renamed when complete.
"""

import contextlib
import glob
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO

# Between a file's name and the process that is writing it.
_INCOMPLETE = ".incomplete-"
# Describes the record files beside it.
MANIFEST_SUFFIX = ".manifest.json"
# `out@64` is TensorFlow's name of out-00000-of-00064 ... out-00063-of-00064.
_SHARDED = re.compile(r"(.+)@(\d+)")
_MAX_SHARDS = 99_999  # five digits
_CHUNK_BYTES = 1 << 20


class _LocalDisk:
    """What is used of `tf.io.gfile`, for local paths."""

    GFile = staticmethod(open)
    exists = staticmethod(os.path.exists)
    isdir = staticmethod(os.path.isdir)
    glob = staticmethod(glob.glob)
    remove = staticmethod(os.remove)

    @staticmethod
    def makedirs(path):
        os.makedirs(path, exist_ok=True)

    @staticmethod
    def rename(source, path, overwrite):
        del overwrite  # always
        os.replace(source, path)


def _storage(path: str):
    """Who holds a path: the local disk or `tf.io.gfile`."""
    if "://" not in path:
        return _LocalDisk
    import tensorflow as tf

    return tf.io.gfile


def op_errors() -> tuple[type[Exception], ...]:
    """TensorFlow's own errors, which are no OSError.

    Returns:
      For an `except`: nothing as long as TensorFlow is not loaded, since then
      nobody can have raised one.
    """
    loaded = sys.modules.get("tensorflow")
    return (loaded.errors.OpError,) if loaded else ()


def open_read(path: str) -> IO[bytes]:
    """Opens a file's bytes to be read; use it in a `with`."""
    return _storage(path).GFile(path, "rb")


def open_write(path: str) -> IO[bytes]:
    """Opens a new file's bytes to be written; use it in a `with`.

    It may be left half-written: give it a path of `whole_files`.
    """
    return _storage(path).GFile(path, "wb")


def find(pattern: str) -> list[str]:
    """The paths that match a glob, sorted; `glob.escape` a user's folder."""
    return sorted(_storage(pattern).glob(pattern))


def exists(path: str) -> bool:
    """Whether there is a file or a folder."""
    return _storage(path).exists(path)


def remove(path: str) -> None:
    """Removes a file."""
    _storage(path).remove(path)


def rename(source: str, path: str) -> None:
    """Gives a file another name, in place of what has it now."""
    _storage(path).rename(source, path, overwrite=True)


def incomplete(path: str, mark: str) -> str:
    """Where something waits until it may be called `path`.

    Globs of `expand_patterns` do not find it.
    """
    return f"{path}{_INCOMPLETE}{mark}"


def size(path: str) -> int:
    """The bytes of a file."""
    if "://" not in path:
        return os.path.getsize(path)
    return _storage(path).stat(path).length


def sha256(path: str) -> str:
    """The SHA-256 checksum of a file's bytes, in hexadecimal."""
    checksum = hashlib.sha256()
    with open_read(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            checksum.update(chunk)
    return checksum.hexdigest()


def expand_patterns(patterns: str, flag: str = "input_file") -> list[str]:
    """Turns a comma-separated list of files and globs into existing files.

    Args:
      patterns: for example `a.txt,corpus/*.txt,out@64` (see `expand_shards`).
      flag: name of the flag the patterns came from, for the error.

    Returns:
      The paths, each pattern's matches sorted, in the order of the patterns.

    Raises:
      FileNotFoundError: a pattern matches nothing, or a shard is missing.
      ValueError: a number of shards is out of range.
    """
    paths = []
    for pattern in _split(patterns):
        if _storage(pattern).exists(pattern):
            matches = [pattern]  # as it is: a path may hold brackets
        elif _SHARDED.fullmatch(pattern):
            matches = _shards(pattern, flag)
            _require_shards(matches, pattern, flag)
        else:
            found = find(pattern)
            matches = [path for path in found if not _is_by_product(path)]
        if not matches:
            raise FileNotFoundError(
                f"--{flag}: no file matches {pattern!r} (looked from "
                f"{os.getcwd()}); give an existing file or glob."
            )
        paths.extend(matches)
    if not paths:
        raise FileNotFoundError(f"--{flag} is empty; give a file or a glob.")
    return paths


def _is_by_product(path: str) -> bool:
    """Whether a glob shall not find a file: it is no one's data."""
    return _INCOMPLETE in path or path.endswith(MANIFEST_SUFFIX)


def expand_shards(patterns: str, flag: str = "output_file") -> list[str]:
    """Turns a comma-separated list of outputs into paths.

    Args:
      patterns: for example `a.tf_record,out@64`; `out@64` stands for
        `out-00000-of-00064` to `out-00063-of-00064`, TensorFlow's form.
      flag: name of the flag they came from, for the error.

    Returns:
      The paths in their order; none for an empty list.

    Raises:
      ValueError: a number of shards is not 1 to 99999.
    """
    return [
        path for pattern in _split(patterns) for path in _shards(pattern, flag)
    ]


def _split(patterns: str) -> list[str]:
    """The parts of a comma-separated list."""
    return list(filter(None, map(str.strip, patterns.split(","))))


def _shards(pattern: str, flag: str) -> list[str]:
    """The files that `out@64` stands for, or the one that is no such form."""
    sharded = _SHARDED.fullmatch(pattern)
    if not sharded:
        return [pattern]
    count = int(sharded[2])
    if not 1 <= count <= _MAX_SHARDS:
        raise ValueError(
            f"--{flag}: {pattern} asks for {count} shards, expected 1 to "
            f"{_MAX_SHARDS}."
        )
    return [f"{sharded[1]}-{i:05d}-of-{count:05d}" for i in range(count)]


def _require_shards(paths: Sequence[str], pattern: str, flag: str) -> None:
    """Refuses a set of shards with a gap."""
    missing = [path for path in paths if not _storage(path).exists(path)]
    if missing:
        raise FileNotFoundError(
            f"--{flag}: {pattern} stands for {len(paths)} files, but "
            f"{len(missing)} of them are missing, the first is {missing[0]} "
            f"(looked from {os.getcwd()}); write them, or give files that "
            "exist."
        )


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
    require_file(path, "text")

    def where() -> str:
        return f"{path}, line {number}"

    with open_read(path) as file:
        for number, line in enumerate(file, start=1):
            text = decode_line(line, where)
            if number == 1:
                # Differs from the original: a byte-order mark is no part of
                # the text, because it would make a new word of the first one.
                text = text.removeprefix("\ufeff")
            yield text


def decode_line(line: bytes, where: Callable[[], str]) -> str:
    r"""Decodes one line of UTF-8.

    Args:
      line: with or without its `\n`.
      where: names the line for the error, as in `corpus.txt, line 17`; called
        only then.

    Returns:
      The text without its `\n`, and without any `\r`.

    Raises:
      ValueError: it is not UTF-8; names line and byte.
    """
    # Differs from the original: undecodable bytes stop the run, because
    # dropping them in silence (errors="ignore") loses text nobody misses
    # until the model is trained.
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{where()}: byte {error.start + 1} of the line is "
            f"0x{line[error.start]:02x}, which is not UTF-8; convert the "
            "file, for example with `iconv -f latin1 -t utf-8`."
        ) from None
    # As the original, whose reader (TensorFlow's) drops every carriage
    # return: "a\rb" is one word.
    return text.removesuffix("\n").replace("\r", "")


def require_file(path: str, kind: str) -> None:
    """Refuses a path where no file is.

    Args:
      path: what shall be read.
      kind: what it should be, for the error: `text`.

    Raises:
      FileNotFoundError: there is nothing, or a folder.
    """
    if not _storage(path).exists(path) or _storage(path).isdir(path):
        raise FileNotFoundError(f"{path}: no such {kind} file.")


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
        _storage(folder).makedirs(folder or ".")
        with open_write(probe) as file:
            file.write(b"")
        _storage(probe).remove(probe)
    except (OSError, *op_errors()) as error:
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
        if _storage(path).isdir(path):
            raise ValueError(
                f"--output_file: {path} is a folder; give the path of a file."
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
            _storage(path).makedirs(os.path.dirname(path) or ".")
        yield temporary
        for source, path in zip(temporary, paths, strict=True):
            _storage(path).rename(source, path, overwrite=True)
    except (OSError, *op_errors()) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise OSError(
            f"cannot write {', '.join(paths[:3])}"
            f"{' and others' if len(paths) > 3 else ''}: {error}. Nothing was "
            "changed there; check the folder's permissions and free space."
        ) from error
    finally:
        for source in temporary:
            with contextlib.suppress(OSError, *op_errors()):
                if _storage(source).exists(source):
                    _storage(source).remove(source)


def copy(source: str, path: str) -> None:
    """Writes a file's bytes to a file that appears whole.

    What stood at `path` is replaced; where that is a link, the file that it
    leads to is not touched.
    """
    with whole_files([path]) as (temporary,):
        with open_read(source) as old, open_write(temporary) as new:
            while chunk := old.read(_CHUNK_BYTES):
                new.write(chunk)


def write_text(path: str, text: str) -> None:
    """Writes a UTF-8 text file that appears whole (see `whole_files`)."""
    with whole_files([path]) as (temporary,):
        with open_write(temporary) as file:
            file.write(text.encode("utf-8"))
