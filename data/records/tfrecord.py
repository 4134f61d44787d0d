"""Reads and writes TFRecord files without TensorFlow.

A framed record is its length (8 bytes, little-endian), the checksum of the
length (4 bytes), the record, and the checksum of the record (4 bytes). A file
is a sequence of framed records, possibly compressed by gzip.

Source: tensorflow/core/lib/io/record_writer.h.
"""

import contextlib
import functools
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator

import google_crc32c

from data.storage import files

FRAME_BYTES = 16
_HEADER_BYTES = 12
_CHECKSUM_BYTES = 4
# Bytes unzipped at once.
_CHUNK_BYTES = 1 << 20
# English pretraining records of length 128 shrink to 32.0 % at 141 MB/s at
# level 1, 31.4 % at 127 at level 3, 30.1 % at 77 at 6, and 29.8 % at 28 at 9.
_GZIP_LEVEL = 1
# For zlib: deflate's largest window, with a gzip header and trailer.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


def _checksum(data: bytes) -> bytes:
    """Returns TFRecord's masked CRC-32C."""
    crc = google_crc32c.value(data)
    crc = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return crc.to_bytes(_CHECKSUM_BYTES, "little")


# The records of a file have only a few hundred different lengths.
@functools.lru_cache(maxsize=4096)
def _header(length: int) -> bytes:
    """Returns the bytes before a record of a length."""
    packed = length.to_bytes(8, "little")
    return packed + _checksum(packed)


def frame(record: bytes) -> bytes:
    """Adds length and checksums to a record."""
    return _header(len(record)) + record + _checksum(record)


def is_gzip(path: str) -> bool:
    """Whether a file is compressed, judged by its first bytes."""
    with files.open_read(path) as file:
        # A plain file begins like this only if the length of its first record
        # is 560,927 bytes plus a multiple of 16 MiB.
        return file.read(3) == b"\x1f\x8b\x08"


class DamagedError(ValueError):
    """A record file is cut short or damaged."""


def read_records(path: str, start: int = 0, number: int = 1) -> Iterator[bytes]:
    """Yields a file's records without frames and verifies every byte.

    The file is plain or gzip. `start` is the first byte of the first record to
    read (0 if compressed), `number` that record's number, for the error. Raises
    DamagedError, which names record and byte, if the file is truncated or
    damaged. Gzip files are decompressed ahead, so it names a record before the
    damage.
    """
    files.require_file(path, "record")
    end = start
    try:
        for record, is_whole in _contents(path, start):
            if not is_whole:
                raise EOFError
            yield record
            number += 1
            end += FRAME_BYTES + len(record)
    except _UNREADABLE:
        where = f"record {number}, at byte {end} of {files.size(path)},"
        if is_gzip(path):
            where = f"record {number} or a later one"
        raise DamagedError(
            f"{path}: {where} is cut short or damaged; copy or write the file "
            "again."
        ) from None


def whole_records(path: str) -> Iterator[bytes]:
    """Yields the records before the first damaged or truncated length.

    Records with damaged contents are left out.
    """
    with contextlib.suppress(*_UNREADABLE):
        for record, is_whole in _contents(path):
            if is_whole:
                yield record


def survey(path: str) -> tuple[list[list[int]], int, int]:
    """Finds the readable records of an uncompressed file.

    Returns runs of undamaged records (first byte, number of the first record
    from 1, number of records, perhaps 0), the number of damaged records between
    them, and the first damaged or truncated length, or the end of the file: no
    record can be found after it.
    """
    runs, end, number = [[0, 1, 0]], 0, 1
    with contextlib.suppress(*_UNREADABLE):
        for record, is_whole in _contents(path):
            end += FRAME_BYTES + len(record)
            number += 1
            if is_whole:
                runs[-1][-1] += 1
            else:
                runs.append([end, number, 0])
    return runs, len(runs) - 1, end


# Errors of reading a truncated or damaged file.
_UNREADABLE = (EOFError, zlib.error, gzip.BadGzipFile)


def _contents(path: str, start: int = 0) -> Iterator[tuple[bytes, bool]]:
    """Yields each record and whether its checksum is right.

    Raises one of `_UNREADABLE` at a damaged length and at a truncation.
    """
    with files.open_read(path) as opened:
        file = opened
        if is_gzip(path):
            unzipped = gzip.GzipFile(fileobj=opened, mode="rb")
            file = io.BufferedReader(unzipped, _CHUNK_BYTES)
        file.seek(start)
        while header := file.read(_HEADER_BYTES):
            length = int.from_bytes(header[:8], "little")
            if header != _header(length):
                raise EOFError
            record, checksum = file.read(length), file.read(_CHECKSUM_BYTES)
            if len(checksum) < _CHECKSUM_BYTES:
                raise EOFError
            yield record, checksum == _checksum(record)


class RecordWriter(contextlib.AbstractContextManager):
    """Writes a TFRecord file, which is complete after the block.

    The same records give the same bytes; the gzip header has no time or name.
    `gzip` makes pretraining records three times smaller, and reading takes
    twice the time. An error leaves the file incomplete: see `open_whole`.
    `num_records` counts the records written so far.
    """

    def __init__(self, path: str, compression: str = "none"):
        self.num_records = 0
        self._file = files.open_write(path)
        self._compressor = None
        if compression == "gzip":
            self._compressor = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WINDOW)
        self._sha256 = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The checksum of the file so far."""
        return self._sha256.hexdigest()

    def write(self, record: bytes) -> None:
        """Writes one record."""
        self.num_records += 1
        data = frame(record)
        if self._compressor:
            data = self._compressor.compress(data)
        self._write(data)

    def _write(self, data: bytes) -> None:
        """Writes bytes and adds them to the checksum."""
        self._sha256.update(data)
        self._file.write(data)

    def __exit__(self, kind, *_):
        # An error of the block is not hidden by one of closing the file.
        hidden = (OSError, *files.op_errors()) if kind else ()
        with contextlib.suppress(*hidden), self._file:
            if self._compressor and not kind:
                self._write(self._compressor.flush())


@contextlib.contextmanager
def open_whole(path: str, compression: str = "none") -> Iterator[RecordWriter]:
    """Opens a file for writing records; see `files.whole_files`."""
    whole = files.whole_files([path])
    with whole as (temporary,), RecordWriter(temporary, compression) as writer:
        yield writer
