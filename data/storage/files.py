"""Reads text files and writes files that appear complete or not at all.

Local paths use the operating system. Paths with a scheme, such as
`gs://bucket/name`, use `tf.io.gfile`; only they import TensorFlow (3 s,
0.5 GB). A file is written under a temporary name in its folder and renamed when
it is complete. A symbolic link stands for its target. Devices and pipes are
written directly.
"""

import contextlib
import glob
import hashlib
import itertools
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import IO

# In temporary names, between the name of the file and a mark of the writer. A
# process that is killed leaves such files, which may be removed.
_INCOMPLETE = ".incomplete-"
# In the name of a folder of links to another folder's files. A file that is
# written there replaces its link, so that the other folder stays as it is.
OF_LINKS = ".links-"
# The first bytes of gzip, bzip2, xz, zip and Zstandard files.
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"PK\3\4", b"\x28\xb5\x2f\xfd")
# The first bytes of a UTF-16 file.
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
# Suffix of the file that describes a record file.
MANIFEST_SUFFIX = ".manifest.json"
# Suffix of the folder beside record files with the text of --tfds.
TEXT_FOLDER_SUFFIX = ".tfds-text"
_NO_INPUT = (MANIFEST_SUFFIX, TEXT_FOLDER_SUFFIX)
# `out@64` is TensorFlow's name for out-00000-of-00064 ... out-00063-of-00064.
_SHARDED = re.compile(r"(.+)@(\d+)")
_MAX_SHARDS = 99_999  # five digits
_CHUNK_BYTES = 1 << 20


class _LocalDisk:
    """The part of `tf.io.gfile` that is used here, for local paths."""

    GFile = staticmethod(open)
    exists = staticmethod(os.path.exists)
    isdir = staticmethod(os.path.isdir)
    glob = staticmethod(glob.glob)
    remove = staticmethod(os.remove)

    @staticmethod
    def makedirs(path):
        os.makedirs(path, exist_ok=True)

    @staticmethod
    def rename(source, path, overwrite=True):
        os.replace(source, path)


def _storage(path: str):
    """Returns the file system of a path: local disk or `tf.io.gfile`."""
    if "://" not in path:
        return _LocalDisk
    import tensorflow as tf

    return tf.io.gfile


def op_errors() -> tuple[type[Exception], ...]:
    """TensorFlow's errors, which are not OSErrors, for an `except` clause.

    Empty if TensorFlow is not loaded, because then it raised no error.
    """
    loaded = sys.modules.get("tensorflow")
    return (loaded.errors.OpError,) if loaded else ()


def lost_machine_errors() -> tuple[type[Exception], ...]:
    """Those of `op_errors` that say that a TPU or another host went away.

    Source: `_PREEMPTION_ERRORS` of tf.compat.v1.train.MonitoredSession.
    """
    errors = op_errors() and sys.modules["tensorflow"].errors
    return errors and (errors.UnavailableError, errors.AbortedError)


def open_read(path: str) -> IO[bytes]:
    """Opens a file for reading bytes."""
    return _storage(path).GFile(path, "rb")


def open_write(path: str) -> IO[bytes]:
    """Opens a new file for writing bytes.

    An error leaves it incomplete: see `open_whole` and `whole_files`.
    """
    return _storage(path).GFile(path, "wb")


def find(pattern: str) -> list[str]:
    """Returns the sorted paths that match a glob."""
    return sorted(_storage(pattern).glob(pattern))


def find_in(folder: str, pattern: str) -> list[str]:
    """Returns the sorted paths in a folder whose names match a glob.

    `[`, `?` and `*` in the folder's name stand for themselves.
    """
    return find(os.path.join(glob.escape(folder), pattern))


def exists(path: str) -> bool:
    """Whether a file or folder exists."""
    return _storage(path).exists(path)


def first_of(names: Iterable[str], *folders: str) -> str | None:
    """Returns the first file that is there, folder by folder, or None."""
    paths = (os.path.join(folder, name) for folder in folders for name in names)
    return next(filter(exists, paths), None)


def is_folder(path: str) -> bool:
    """Whether a path is a folder, or a link to one."""
    return _storage(path).isdir(path)


def is_stream(path: str) -> bool:
    """Whether a path is a device or pipe, or a link to one."""
    if "://" in path or not os.path.exists(path):
        return False
    return not (os.path.isfile(path) or os.path.isdir(path))


def place_of(path: str) -> str:
    """Returns the path where a file is written: the target of a link."""
    if "://" in path or OF_LINKS in path or not os.path.islink(path):
        return path
    return os.path.realpath(path)


def absolute(path: str) -> str:
    """Returns a local path for any working directory; others, and "", as is."""
    return os.path.abspath(path) if path and "://" not in path else path


def remove(path: str) -> None:
    """Removes a file if there is one."""
    if exists(path):
        _storage(path).remove(path)


def rename(source: str, path: str) -> None:
    """Renames a file; replaces a file that has the new name."""
    _storage(path).rename(source, place_of(path), overwrite=True)


def incomplete(path: str, mark: str) -> str:
    """Returns a temporary name for a file, which `expand_patterns` ignores.

    It is in the same folder; if the file is a link, in its target's folder.
    """
    return f"{place_of(path)}{_INCOMPLETE}{mark}"


def size(path: str) -> int:
    """The size of a file in bytes."""
    if "://" not in path:
        return os.path.getsize(path)
    return _storage(path).stat(path).length


def sha256(path: str) -> str:
    """Returns the SHA-256 checksum of a file in hexadecimal."""
    checksum = hashlib.sha256()
    with open_read(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            checksum.update(chunk)
    return checksum.hexdigest()


def expand_patterns(patterns: str, flag: str = "input_file") -> list[str]:
    """Expands the value of a flag, a comma-separated list of files and globs.

    For example `a.txt,corpus/*.txt,out@64` (see `expand_shards`), in this
    order; the matches of a glob are sorted, without temporary files, manifests
    and text folders. Raises FileNotFoundError if a pattern matches nothing or
    a folder, or a shard is missing.
    """
    paths = []
    for pattern in _split(patterns) or [""]:
        if exists(pattern):
            matches = [pattern]  # a path may contain brackets
            missing = matches if is_folder(pattern) else []
        elif _SHARDED.fullmatch(pattern):
            matches = _shards(pattern, flag)
            missing = [path for path in matches if not exists(path)]
        else:
            whole = [x for x in find(pattern) if _INCOMPLETE not in x]
            matches = [x for x in whole if not x.endswith(_NO_INPUT)]
            missing = list(filter(is_folder, matches)) if matches else [pattern]
        # Differs from the original: it reads the other files, so that after a
        # typing error it trains on a part of the text.
        if missing:
            raise FileNotFoundError(
                f"--{flag}: no file matches {missing[0]!r} (looked from "
                f"{os.getcwd()}); give files, no folder, such as corpus/*.txt."
            )
        paths.extend(matches)
    return paths


def expand_shards(patterns: str) -> list[str]:
    """Expands --output_file, a comma-separated list of paths.

    `out@64` stands for `out-00000-of-00064` to `out-00063-of-00064`, as in
    TensorFlow. Raises ValueError if a number of shards is not 1 to 99999.
    """
    shards = (_shards(pattern, "output_file") for pattern in _split(patterns))
    return list(itertools.chain.from_iterable(shards))


def _split(patterns: str) -> list[str]:
    return list(filter(None, map(str.strip, patterns.split(","))))


def _shards(pattern: str, flag: str) -> list[str]:
    """Expands `out@64`; returns any other path unchanged."""
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


def read_lines(path: str) -> Iterator[str]:
    r"""Yields the lines of a UTF-8 text file without `\n`.

    Only `\n` ends a line; U+2028 and form feeds do not. A byte-order mark at
    the start of the file is dropped. Raises FileNotFoundError, or ValueError
    with file, line and byte if a line is not UTF-8.
    """
    require_file(path, "text")
    with open_read(path) as file:
        yield from lines_of(file, path)


def lines_of(file: Iterable[bytes], name: str) -> Iterator[str]:
    """Yields the lines of opened UTF-8 text as `read_lines` does.

    `name` names the text in the ValueError for a line that is not UTF-8; the
    next call continues after that line.
    """
    return map(decode_line, file, itertools.repeat(name), itertools.count(1))


def decode_line(line: bytes, name: str, number: int) -> str:
    r"""Decodes one line of UTF-8 and removes its newline and every `\r`.

    `name` and `number`, from 1, are the place for the ValueError, such as
    `corpus.txt, line 17`. The first line loses its byte-order mark.
    """
    # Differs from the original: bytes that are not UTF-8 are an error, because
    # ignoring them (errors="ignore") loses text without a message.
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        remedy = "convert it: `iconv -f ENCODING -t utf-8`, such as cp1252"
        if number == 1 and line.startswith(_PACKED):
            remedy = "the file is compressed: unpack it with `gunzip` or alike"
        elif number == 1 and line.startswith(_UTF16):
            remedy = "it is UTF-16: `iconv -f utf-16 -t utf-8` converts it"
        raise ValueError(
            f"{name}, line {number}: byte {error.start + 1} of the line is "
            f"0x{line[error.start]:02x}, which is not UTF-8; {remedy}."
        ) from None
    # Differs from the original: a byte-order mark is dropped, because it would
    # change the first word.
    if number == 1:
        text = text.removeprefix("\ufeff")
    # The original's reader (TensorFlow's) drops every carriage return: "a\rb"
    # is one word.
    return text.removesuffix("\n").replace("\r", "")


def require_file(path: str, kind: str) -> None:
    """Raises FileNotFoundError if a path is not a file of the `kind`."""
    if not exists(path) or is_folder(path):
        raise FileNotFoundError(f"{path}: no such {kind} file.")


def check_writable(folder: str, flag: str = "output_dir") -> None:
    """Creates a folder and raises OSError if it cannot be written.

    "" is the current folder; the error names `flag`.
    """
    probe = os.path.join(folder, f".writable-{os.urandom(4).hex()}")
    try:
        _storage(folder).makedirs(folder or ".")
        with open_write(probe) as file:
            file.write(b"")
        remove(probe)
    except (OSError, *op_errors()) as error:
        raise OSError(
            f"--{flag}: {folder or '.'} cannot be written "
            f"({str(error).splitlines()[0]}); check its permissions."
        ) from error


@contextlib.contextmanager
def whole_files(paths: list[str]) -> Iterator[list[str]]:
    """Makes files appear complete or not at all.

    Yields a temporary path for each file, in the same folder, which is created
    if it is missing. When the block ends without an error, the files are
    renamed to `paths`, or to the targets of symbolic links. After an error they
    are removed, and existing files at `paths` are unchanged. A device or pipe
    is yielded itself, and never replaced or removed. OSError: a file cannot be
    written, or the disk is full.
    """
    # Random names, so that two runs never share a file. Process ids are not
    # enough: in containers they are often all 1.
    temporary = [
        path if is_stream(path) else incomplete(path, os.urandom(4).hex())
        for path in paths
    ]
    pairs = zip(temporary, paths, strict=True)
    staged = {source: path for source, path in pairs if source != path}
    renamed: list[str] = []
    try:
        for source in staged:
            _storage(source).makedirs(os.path.dirname(source) or ".")
        yield temporary
        for source, path in staged.items():
            rename(source, path)
            renamed.append(path)
    except (OSError, *op_errors()) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise OSError(
            f"cannot write {', '.join(paths[:3])}"
            f"{' and others' if len(paths) > 3 else ''}: {error}. Changed "
            f"there: {', '.join(renamed) or 'no file'}; check the folder's "
            "permissions and free space."
        ) from error
    finally:
        for source in staged:
            with contextlib.suppress(OSError, *op_errors()):
                remove(source)


@contextlib.contextmanager
def open_whole(path: str) -> Iterator[IO[bytes]]:
    """Opens one file for writing bytes; see `whole_files`."""
    with whole_files([path]) as (temporary,), open_write(temporary) as file:
        yield file


def copy(source: str, path: str) -> None:
    """Copies a file; replaces a file that has the new name."""
    with open_whole(path) as new, open_read(source) as old:
        shutil.copyfileobj(old, new, _CHUNK_BYTES)


def write_text(path: str, text: str) -> None:
    """Writes a UTF-8 text file; see `whole_files`."""
    with open_whole(path) as file:
        file.write(text.encode("utf-8"))
