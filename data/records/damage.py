"""Finds the readable records of truncated or damaged files.

`find_segments` verifies every byte before a run. A file may also be damaged
during a run: then `naming_damage` reports which one.
"""

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from data.records import reading, tfrecord
from data.records.feature_spec import FeatureSpec
from data.records.tfrecord import DamagedError
from data.storage import files

_CHECKED_AT_ONCE = 1000  # records
# Errors of tf.data for a file that is damaged, missing or truncated.
_READ_ERRORS = (
    tf.errors.DataLossError,
    tf.errors.FailedPreconditionError,
    tf.errors.NotFoundError,
)


class Segment(NamedTuple):
    """Consecutive undamaged records of a file.

    `start` is the first byte (0 if compressed), `number` the number of the
    first record from 1; `compression` is "" or "GZIP".
    """

    path: str
    compression: str
    start: int
    number: int
    count: int


# What was left out of damaged files; a file without records is damaged, too.
# `files`; undamaged records `kept` of them; damaged `records` with undamaged
# ones after them; `bytes` after the first damaged or truncated length, whose
# records cannot be counted (0 for gzip).
Losses = Counter[str]


def describe(losses: Losses) -> str:
    """Returns what was left out as text."""
    return (
        f"records kept: {losses['kept']:,}; left out: {losses['records']:,}, "
        f"and {losses['bytes']:,} bytes after damage"
    )


def find_segments(
    path: str, skip_bad_records: bool
) -> tuple[list[Segment], Losses]:
    """Verifies every byte of a record file and returns its undamaged parts.

    Damaged contents lose one record; a damaged length, a truncation and any
    damage of a gzip file lose the rest of the file. Without `skip_bad_records`,
    damage and an empty file raise DamagedError, which names the record.
    """
    compression = "GZIP" if tfrecord.is_gzip(path) else ""
    try:
        count = reading.count_records(path)
        if compression and next(_unzipped(path), None) is None:
            # Python accepts gzip headers that zlib refuses.
            raise DamagedError(f"{path}: record 1 is damaged; write it again.")
        return [Segment(path, compression, 0, 1, count)], Counter()
    except DamagedError as error:
        if not skip_bad_records:
            raise
        damage, _, _ = str(error).rpartition("; ")  # without the remedy
    size = files.size(path)
    if compression:
        count = sum(1 for _ in _unzipped(path))
        runs, num_damaged, lost_from = [(0, 1, count)], 0, size
    else:
        runs, num_damaged, lost_from = tfrecord.survey(path)
    segments = [Segment(path, compression, *run) for run in runs if run[-1]]
    kept = sum(segment.count for segment in segments)
    losses = Counter(
        files=1, kept=kept, records=num_damaged, bytes=size - lost_from
    )
    logging.warning("--skip_bad_records: %s (%s).", damage, describe(losses))
    return segments, losses


def _unzipped(path):
    """Yields the records that TensorFlow can read of a gzip file."""
    # TensorFlow decompresses in other portions than Python, so they can read
    # different numbers of records before the damage.
    records = tf.data.TFRecordDataset(path, "GZIP").ignore_errors()
    return records.as_numpy_iterator()


def find_damage(segments: Sequence[Segment]) -> str | None:
    """Verifies records again; describes the first damage, None = no damage."""
    for segment in segments:
        try:
            found = sum(1 for _ in _numbered(segment))
        except (OSError, ValueError, tf.errors.OpError) as error:
            return str(error)
        if found < segment.count:
            return (
                f"{segment.path}: record {segment.number + found} is cut "
                "short, damaged or missing; copy or write the file again."
            )
    return None


def check_fit(
    segments: Sequence[Segment],
    specs: Sequence[FeatureSpec],
    sample: int | None = None,
) -> None:
    """Raises ValueError for the first record that does not fit the model.

    Checks `sample` records of the segments; None = all of them.
    """
    numbered = itertools.chain.from_iterable(map(_numbered, segments))
    checked = itertools.islice(numbered, sample)
    while some := list(itertools.islice(checked, _CHECKED_AT_ONCE)):
        try:
            reading.parse_batch(specs, [record for *_, record in some])
        except tf.errors.InvalidArgumentError:
            for path, number, record in some:
                reading.check_record(specs, f"{path}, record {number}", record)
            raise


def _numbered(segment):
    """Yields path, number and content of the records up to the first damage."""
    path, first = segment.path, segment.number
    files.require_file(path, "record")
    if segment.compression:
        records = _unzipped(path)
    else:
        records = tfrecord.read_records(path, segment.start, first)
    some = itertools.islice(records, segment.count)
    for number, record in enumerate(some, first):
        yield path, number, record


@contextlib.contextmanager
def naming_damage(opened: Any) -> Iterator[None]:
    """Adds file and record to the errors of reading a `RecordFiles` in a block.

    Raises DamagedError if a file was changed or removed during the run,
    ValueError if a record does not fit.
    """
    try:
        yield
    except DamagedError:
        raise  # names the record already
    except (ValueError, tf.errors.OpError) as error:
        cause = error.__cause__ or error
        if any(begin in str(cause) for begin in reading.EXPLAINED):
            check_fit(opened.segments, opened.specs)
        if isinstance(cause, _READ_ERRORS):
            if damage := find_damage(opened.segments):
                raise DamagedError(
                    f"{damage} It was undamaged when the run began; the same "
                    "command resumes from the last checkpoint."
                ) from error
        raise
