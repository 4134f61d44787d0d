"""Record files checked, counted and decoded with TensorFlow.

Axes: B batch.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from google.protobuf import message

from data.records import tfrecord
from data.records.feature_spec import FeatureSpec

# Of each type on disk, the protobuf field that holds it.
_KINDS = {"int64": "int64_list", "float32": "float_list"}
# Read from a file at once, as tf.data.TFRecordDataset does.
_READ_BYTES = 256 << 10
# How errors of `parse_batch` begin that `find_misfit` explains.
OUT_OF_RANGE = "a record holds a value that is out of range"


def parse_batch(
    specs: Sequence[FeatureSpec], serialized: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Decodes a batch of examples; runs inside tf.data.

    Args:
      specs: the features to read; others in the records are ignored.
      serialized: string [B].

    Returns:
      For each feature's name a tensor [B, length]; int64 comes as int32.

    Raises:
      tf.errors.InvalidArgumentError: a record lacks a feature, has it in
        another length (`check_record` says so more clearly), or a value is
        not below its spec's limit (`find_misfit` says where).

    Source: _decode_record of input_fn_builder in run_pretraining.py.
    """
    features = _parse(specs, serialized)
    limited = [spec for spec in specs if spec.limit is not None]
    if limited:
        # Few operations: each takes longer to start than to run.
        highest = tf.stack(
            [tf.reduce_max(_unsigned(features[x.name])) for x in limited]
        )
        tf.raw_ops.Assert(
            condition=tf.reduce_all(highest < [x.limit for x in limited]),
            data=[OUT_OF_RANGE, [x.name for x in limited], highest],
        )
    # int32, as in the original: TPUs have no int64.
    return {
        name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
        for name, value in features.items()
    }


def _parse(specs, serialized):
    """Features of a batch as they are on disk: name -> [B, length]."""
    return tf.io.parse_example(
        serialized,
        {
            spec.name: tf.io.FixedLenFeature([spec.length], spec.dtype)
            for spec in specs
        },
    )


def _unsigned(values):
    """Integers as unsigned ones: a negative one is beyond any limit."""
    return tf.bitcast(values, tf.uint64)


def check_record(
    specs: Sequence[FeatureSpec], path: str, record: bytes
) -> None:
    """Checks before a long run that a file's records are what it expects.

    Args:
      specs: the features that will be parsed.
      path: the file, for the error.
      record: one serialized example of it, usually the first.

    Raises:
      ValueError: the record is no `tf.train.Example`, or lacks a feature, or
        has it in another type or length; says which flag to change.
    """
    try:
        features = tf.train.Example.FromString(record).features.feature
    except message.DecodeError:
        raise ValueError(
            f"{path}: its first record is no tf.train.Example; give files "
            "written by this project or by the original BERT."
        ) from None
    for spec in specs:
        if spec.name not in features:
            raise ValueError(
                f"{path}: records have no feature {spec.name}, only "
                f"{', '.join(sorted(features)) or 'none at all'}; give files "
                "written for this program."
            )
        kind = features[spec.name].WhichOneof("kind")
        if kind != _KINDS[spec.dtype]:
            raise ValueError(
                f"{path}: feature {spec.name} is a {kind}, expected a "
                f"{_KINDS[spec.dtype]}; give files written for this program."
            )
        got = len(getattr(features[spec.name], kind).value)
        if got != spec.length:
            remedy = f"pass --{spec.flag}={got} or " if spec.flag else ""
            raise ValueError(
                f"{path}: feature {spec.name} has {got} values, expected "
                f"{spec.length}; {remedy}write the records again."
            )


def find_misfit(
    specs: Sequence[FeatureSpec], serialized: Sequence[bytes]
) -> tuple[int, str] | None:
    """Finds the first record of several that `parse_batch` refuses.

    Args:
      specs: see `parse_batch`.
      serialized: the records.

    Returns:
      Its index and what is wrong with it; None if all records fit.
    """
    try:
        features = _parse(specs, serialized)
    except tf.errors.InvalidArgumentError as error:
        if len(serialized) == 1:
            reason = error.message.splitlines()[0]
            return 0, f"its records are not all alike ({reason})"
        for i, record in enumerate(serialized):
            if misfit := find_misfit(specs, [record]):
                return i, misfit[1]
        raise
    found = []
    for spec in specs:
        if spec.limit is None:
            continue
        values = features[spec.name].numpy()
        is_out = values.view(np.uint64) >= spec.limit
        if is_out.any():
            row = int(np.argmax(is_out.any(axis=1)))
            worst = values[row][is_out[row]].max()
            text = (
                f"feature {spec.name} holds {worst}, but the model allows 0 to "
                f"{spec.limit - 1}. The records were made with another "
                "vocabulary, length or set of labels than the model's"
            )
            found.append((row, text))
    return min(found, default=None)


def feature_names(path: str) -> frozenset[str]:
    """The names of the features of a file's first whole record.

    None if it has no record, or none that is a `tf.train.Example`.
    """
    first = next(tfrecord.whole_records(path), b"")
    try:
        return frozenset(tf.train.Example.FromString(first).features.feature)
    except message.DecodeError:
        return frozenset()


def count_records(path: str) -> int:
    """Counts a record file's records and verifies every checksum.

    Args:
      path: a TFRecord file, plain or gzip.

    Returns:
      The number of records, at least 1.

    Raises:
      FileNotFoundError: there is no such file.
      tfrecord.DamagedError: the file is cut short or damaged; says at which
        record. Or it is empty.
    """
    # Not by tf.data: it takes a header cut short, and in a gzip file any cut,
    # for the end of the file.
    count = sum(1 for _ in tfrecord.read_records(path))
    if not count:
        raise tfrecord.DamagedError(f"{path} holds no records; write it again.")
    return count


def compression_of(path: str) -> str:
    """The compression of a record file, as tf.data names it: "" or "GZIP"."""
    return "GZIP" if tfrecord.is_gzip(path) else ""


def read_from(
    path: tf.Tensor, compression: tf.Tensor, start: tf.Tensor
) -> tf.data.Dataset:
    """A file's serialized records from one on; for use inside a dataset.

    Args:
      path: string scalar.
      compression: likewise, "" or "GZIP".
      start: integer scalar, the byte where that one begins; 0 if compressed.
    """
    # tf.data.TFRecordDataset has no offset; the kernel below it does, but
    # cannot be the outermost dataset (its AsGraphDef leaves the offset out).
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=[path],
        compression_type=compression,
        buffer_size=tf.constant(_READ_BYTES, tf.int64),
        byte_offsets=[tf.cast(start, tf.int64)],
    )
    return tf.data.experimental.from_variant(
        variant, tf.TensorSpec([], tf.string)
    )
