"""TFRecord files without TensorFlow: records framed, cut and written.

A framed record is its length (8 bytes, little-endian), the length's checksum
(4), the record, the record's checksum (4). A file is framed records one after
the other, or the gzip of that.

Source: tensorflow/core/lib/io/record_writer.h.
"""

import contextlib
import functools
import gzip
import hashlib
import io
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Literal, NamedTuple

import google_crc32c

from data.storage import files

Compression = Literal["none", "gzip"]

FRAME_BYTES = 16
_HEADER_BYTES = 12
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
# Handed over to compression, checksum and disk at once.
_CHUNK_BYTES = 1 << 20
# Of pretraining records of English (length 128) level 1 leaves 32.0 % at 141
# MB/s, 3 leaves 31.4 % at 127, 6 30.1 % at 77, 9 29.8 % at 28.
_GZIP_LEVEL = 1
# For zlib: deflate's largest window, with a gzip header and trailer.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


def _checksum(data: bytes) -> bytes:
    """The CRC-32C, rotated and shifted as TFRecord asks for."""
    crc = google_crc32c.value(data)
    crc = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return _CHECKSUM.pack(crc)


# Records of a file are nearly all of a few hundred lengths.
@functools.lru_cache(maxsize=4096)
def _header(length: int) -> bytes:
    """What stands before a record of so many bytes."""
    packed = _LENGTH.pack(length)
    return packed + _checksum(packed)


def frame(record: bytes) -> bytes:
    """Puts length and checksums around a record."""
    return _header(len(record)) + record + _checksum(record)


def frames(records: Iterable[bytes]) -> list[bytes]:
    """Frames many records, in their order."""
    return [frame(record) for record in records]


def split_frames(data: bytes) -> list[bytes]:
    """Cuts framed records that lie one after the other.

    Args:
      data: what `frame` made, joined; or an uncompressed file's bytes.

    Returns:
      The records with their frames. Their lengths are checked, the checksums
      of their contents are not.

    Raises:
      ValueError: a length is damaged, or the last record is cut short.
    """
    framed, start = [], 0
    while start < len(data):
        length = _length(data[start : start + _HEADER_BYTES])
        end = start + FRAME_BYTES + (length or 0)
        if length is None or end > len(data):
            raise ValueError(
                f"record {len(framed) + 1}, at byte {start} of {len(data)}, is "
                "cut short or damaged."
            )
        framed.append(data[start:end])
        start = end
    return framed


def _length(header: bytes) -> int | None:
    """The length that a record's header states; None if it is damaged."""
    if len(header) < _HEADER_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(header)
    return length if header == _header(length) else None


def is_gzip(path: str) -> bool:
    """Whether a file is compressed, by its first bytes."""
    with files.open_read(path) as file:
        # Plain files begin so only if the length of their first record is
        # 560,927 bytes, or that and a multiple of 16 MiB.
        return file.read(3) == b"\x1f\x8b\x08"


class DamagedError(ValueError):
    """A record file is cut short or damaged."""


def read_records(path: str, start: int = 0, number: int = 1) -> Iterator[bytes]:
    """Streams a file's records and verifies every byte, also of gzip files.

    Args:
      path: a TFRecord file.
      start: byte of the first record to read; 0 if compressed.
      number: of that record, for the error.

    Yields:
      The records, without their frames.

    Raises:
      FileNotFoundError: there is no such file.
      DamagedError: the file is cut short or damaged; says at which record and
        byte, or of a gzip file, which is unpacked in advance, near which
        record.
    """
    files.require_file(path, "record")
    end = start
    with _unzipped(path) as file:
        file.seek(start)
        try:
            for record, is_whole in _contents(file):
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
                f"{path}: {where} is cut short or damaged; copy or write the "
                "file again."
            ) from None


def whole_records(path: str) -> Iterator[bytes]:
    """Streams the records of a file that may be damaged, as far as it goes.

    Args:
      path: a TFRecord file.

    Yields:
      The records whose contents are what was written, up to the first length
      that is damaged or cut off.
    """
    with _unzipped(path) as file, contextlib.suppress(*_UNREADABLE):
        for record, is_whole in _contents(file):
            if is_whole:
                yield record


class Survey(NamedTuple):
    """What a plain file holds that may be damaged.

    Attributes:
      runs: of whole records, one after the other, the byte where they begin,
        the number of the first, from 1, and how many they are.
      num_damaged: records between these, whose contents are damaged.
      lost_from: byte of the first length that is damaged or cut off; nobody
        can tell where records begin behind it. Else the file's end.
    """

    runs: list[tuple[int, int, int]]
    num_damaged: int
    lost_from: int


def survey(path: str) -> Survey:
    """Finds what can be read of a plain file.

    Args:
      path: a TFRecord file, not compressed.
    """
    runs, num_damaged = [], 0
    end, number, count = 0, 1, 0
    begin = end, number
    with _unzipped(path) as file, contextlib.suppress(*_UNREADABLE):
        for record, is_whole in _contents(file):
            end += FRAME_BYTES + len(record)
            number += 1
            if is_whole:
                count += 1
                continue
            if count:
                runs.append((*begin, count))
            begin, count = (end, number), 0
            num_damaged += 1
    if count:
        runs.append((*begin, count))
    return Survey(runs, num_damaged, lost_from=end)


# What reading raises where a file is cut short or damaged.
_UNREADABLE = (EOFError, zlib.error, gzip.BadGzipFile)


def _contents(file: IO[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each record's contents, and whether they are what was written.

    Raises one of `_UNREADABLE` at a length that is damaged, and at a cut.
    """
    while header := file.read(_HEADER_BYTES):
        length = _length(header)
        if length is None:
            raise EOFError
        record, checksum = file.read(length), file.read(_CHECKSUM.size)
        if len(checksum) < _CHECKSUM.size:
            raise EOFError
        yield record, checksum == _checksum(record)


@contextlib.contextmanager
def _unzipped(path: str) -> Iterator[IO[bytes]]:
    """Opens a file as if it were not compressed."""
    with files.open_read(path) as file:
        if not is_gzip(path):
            yield file
            return
        with gzip.GzipFile(fileobj=file, mode="rb") as unzipped:
            yield io.BufferedReader(unzipped, _CHUNK_BYTES)


class RecordWriter:
    """Writes a TFRecord file; use it as a context manager.

    The same records give the same bytes, compressed too: the gzip header has
    neither time nor name.

    Args:
      path: the file; it may be left half-written, so give it a path of
        `files.whole_files`.
      compression: `gzip` makes pretraining records three times smaller, and
        reading them takes twice the time.

    Attributes:
      num_records: records written so far.
      sha256: checksum of the file's bytes, in hexadecimal; complete once the
        file is closed.
    """

    def __init__(self, path: str, compression: Compression = "none"):
        self.num_records = 0
        self._file = files.open_write(path)
        self._compressor = None
        if compression == "gzip":
            self._compressor = zlib.compressobj(
                _GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW
            )
        self._sha256 = hashlib.sha256()
        self._waiting = []
        self._num_waiting_bytes = 0

    @property
    def sha256(self) -> str:
        """See the class."""
        return self._sha256.hexdigest()

    def write(self, record: bytes) -> None:
        """Writes one record."""
        self.write_framed(frame(record))

    def write_framed(self, framed: bytes, num_records: int = 1) -> None:
        """Writes records that have their frames already.

        Args:
          framed: one framed record, or several joined.
          num_records: how many.
        """
        self._waiting.append(framed)
        self.num_records += num_records
        self._num_waiting_bytes += len(framed)
        if self._num_waiting_bytes >= _CHUNK_BYTES:
            self._hand_over()

    def _hand_over(self, last: bool = False) -> None:
        """Compresses and writes what waits."""
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._num_waiting_bytes = 0
        if self._compressor:
            data = self._compressor.compress(data)
            if last:
                data += self._compressor.flush()
        self._sha256.update(data)
        self._file.write(data)

    def close(self) -> None:
        """Writes the rest and closes the file."""
        try:
            self._hand_over(last=True)
        finally:
            self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()
        else:  # the file is not to be used: no second error over the first
            with contextlib.suppress(OSError, *files.op_errors()):
                self._file.close()
