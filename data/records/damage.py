"""Record files that are cut short or damaged: what is left, and where.

Whoever reads first looks at every byte (`find_segments`). A file may still be
damaged while it is read for days: then `naming_damage` says which.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from data.records import reading, tfrecord
from data.records.feature_spec import FeatureSpec
from data.records.tfrecord import DamagedError
from data.storage import files

_CHECKED_AT_ONCE = 1000  # records
# What tf.data makes of a file that is damaged, gone, or shorter than it was.
_READ_ERRORS = (
    tf.errors.DataLossError,
    tf.errors.FailedPreconditionError,
    tf.errors.NotFoundError,
)


@dataclasses.dataclass(frozen=True)
class Segment:
    """Records that lie in a file one after the other, all of them whole.

    Attributes:
      path: the file.
      compression: "" or "GZIP".
      start: byte of the first of them; 0 if compressed.
      number: of the first of them in the file, from 1.
      count: how many.
    """

    path: str
    compression: str
    start: int
    number: int
    count: int


@dataclasses.dataclass
class Losses:
    """What was left out of damaged files.

    Attributes:
      num_files: damaged files; one without any record is damaged, too.
      num_kept: records of these that are whole.
      num_records: damaged records that whole ones follow.
      num_bytes: of what nobody can tell how many records it held, behind the
        first length that is damaged or cut off; of gzip files none is counted.
    """

    num_files: int = 0
    num_kept: int = 0
    num_records: int = 0
    num_bytes: int = 0

    def __str__(self) -> str:
        return (
            f"records kept: {self.num_kept:,}; left out: {self.num_records:,}, "
            f"and {self.num_bytes:,} bytes behind damage"
        )


def find_segments(
    path: str, *, skip_bad_records: bool, losses: Losses
) -> list[Segment]:
    """Verifies every byte of a record file.

    Args:
      path: a TFRecord file, plain or gzip.
      skip_bad_records: leave out what is damaged. Damaged contents cost one
        record; a damaged length or a cut, the rest of the file; in a gzip
        file anything costs the rest. A warning says how much it was, also
        of a file without any record.
      losses: to which this file's are added.

    Returns:
      One segment, the file; of a damaged one what lies between the damage,
      which may be nothing.

    Raises:
      FileNotFoundError: there is no such file.
      DamagedError: the file is cut short, damaged or empty, and not to be
        skipped; says at which record.
    """
    compression = reading.compression_of(path)
    try:
        count = reading.count_records(path)
        if compression and not _count_readable(path, most=1):
            # Python takes gzip headers that zlib does not.
            raise DamagedError(
                f"{path}: record 1 is cut short or damaged; copy or write the "
                "file again."
            )
        return [Segment(path, compression, 0, 1, count)]
    except DamagedError as error:
        if not skip_bad_records:
            raise
        damage, _, _ = str(error).rpartition("; ")  # without the remedy
    size = files.size(path)
    if compression:
        runs, num_damaged, lost_from = [(0, 1, _count_readable(path))], 0, size
    else:
        runs, num_damaged, lost_from = tfrecord.survey(path)
    segments = [Segment(path, compression, *run) for run in runs if run[-1]]
    kept = sum(segment.count for segment in segments)
    loss = Losses(1, kept, num_damaged, size - lost_from)
    logging.warning("--skip_bad_records: %s (%s).", damage, loss)
    for field in dataclasses.fields(losses):
        name = field.name
        setattr(losses, name, getattr(losses, name) + getattr(loss, name))
    return segments


def _count_readable(path, most=-1):
    """The records that TensorFlow reads of a damaged gzip file."""
    # It unpacks in other portions than Python: what one can still read in
    # front of damage, the other cannot.
    records = tf.data.TFRecordDataset(path, "GZIP").take(most).ignore_errors()
    return int(records.reduce(np.int64(0), lambda count, _: count + 1))


def find_damage(segments: Sequence[Segment]) -> str | None:
    """Verifies records again.

    Args:
      segments: as found before.

    Returns:
      Which file is no longer what it was, and where; None = all are.
    """
    for segment in segments:
        try:
            damage = _damage_of(segment)
        except (OSError, ValueError, *files.op_errors()) as error:
            damage = str(error)
        if damage:
            return damage
    return None


def find_misfit(
    segments: Sequence[Segment],
    specs: Sequence[FeatureSpec],
    sample: int | None = None,
) -> str | None:
    """Looks for a record that does not fit the model.

    Args:
      segments: where the records lie.
      specs: what each must hold.
      sample: how many records of the segments to look at; None = all.

    Returns:
      Which file and record it is, and why; None = all fit.
    """
    for segment in segments:
        count = segment.count if sample is None else min(segment.count, sample)
        records = itertools.islice(_records_of(segment), count)
        number = segment.number
        while some := list(itertools.islice(records, _CHECKED_AT_ONCE)):
            if misfit := reading.find_misfit(specs, some):
                row, problem = misfit
                return (
                    f"{segment.path}, record {number + row}: {problem}; write "
                    "the file again."
                )
            number += len(some)
        if sample is not None:
            sample -= count
    return None


def _records_of(segment):
    """The records of a segment, as long as they are whole."""
    path = segment.path
    if segment.compression:
        # By TensorFlow: see `_count_readable`.
        return tf.data.TFRecordDataset(path, "GZIP").as_numpy_iterator()
    return tfrecord.read_records(path, segment.start, segment.number)


def _damage_of(segment):
    """What has become of a segment; None = it is whole."""
    path, count = segment.path, segment.count
    if segment.compression:
        files.require_file(path, "record")
        found = min(count, _count_readable(path))
    else:
        records = tfrecord.read_records(path, segment.start, segment.number)
        found = sum(1 for _ in itertools.islice(records, count))
    if found == count:
        return None
    return (
        f"{path}: record {segment.number + found} is cut short or damaged, or "
        "gone; copy or write the file again."
    )


@contextlib.contextmanager
def naming_damage(
    segments: Sequence[Segment], specs: Sequence[FeatureSpec]
) -> Iterator[None]:
    """Names the file and record if records cannot be read or used inside.

    Args:
      segments: what is read inside.
      specs: what each record must hold.

    Raises:
      DamagedError: a file is no longer what it was; says which and where.
      ValueError: a record does not fit; says which and why.
    """
    try:
        yield
    except DamagedError:
        raise  # it is named already
    except (ValueError, tf.errors.OpError) as error:
        cause = error.__cause__ or error
        if reading.OUT_OF_RANGE in str(cause):
            misfit = find_misfit(segments, specs)
            if misfit:
                raise ValueError(misfit) from error
        if not isinstance(cause, _READ_ERRORS):
            raise
        damage = find_damage(segments)
        if damage is None:
            raise
        raise DamagedError(
            f"{damage} It was whole when the run began; the same command goes "
            "on from the last checkpoint."
        ) from error
