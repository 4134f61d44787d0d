"""Checks, counts and parses record files with TensorFlow.

Axes: B batch.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from google.protobuf import message

from data.records import tfrecord
from data.records.feature_spec import FeatureSpec

# Type on disk -> protobuf field.
_KINDS = {"int64": "int64_list", "float32": "float_list"}
# Buffer size of tf.data.TFRecordDataset.
_READ_BYTES = 256 << 10
# Begin of the errors of `parse_batch` that `find_misfit` explains.
OUT_OF_RANGE = "a record holds a value that is out of range"


def parse_batch(
    specs: Sequence[FeatureSpec], serialized: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Decodes serialized examples [B]; runs inside tf.data.

    Returns feature name -> tensor [B, length], where int64 became int32;
    features without a spec are ignored. Raises tf.errors.InvalidArgumentError
    if a record lacks a feature or has another length of it (`check_record` has
    a clearer error), or a value is not within its spec's limit (`find_misfit`
    finds it).

    Source: _decode_record of input_fn_builder in run_pretraining.py.
    """
    features = _parse(specs, serialized)
    if limited := [spec for spec in specs if spec.limit is not None]:
        # As few operations as possible: starting one costs more than running
        # it.
        highest = tf.stack(
            [
                # Negative values exceed any limit.
                tf.reduce_max(tf.bitcast(features[x.name], tf.uint64))
                for x in limited
            ]
        )
        tf.raw_ops.Assert(
            condition=tf.reduce_all(highest < [x.limit for x in limited]),
            data=[OUT_OF_RANGE, [x.name for x in limited], highest],
        )
    # int32, as in the original, because TPUs have no int64.
    return {
        name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
        for name, value in features.items()
    }


def _parse(specs, serialized):
    """Parses the features of a batch: name -> [B, length], types of disk."""
    return tf.io.parse_example(
        serialized,
        {
            spec.name: tf.io.FixedLenFeature([spec.length], spec.dtype)
            for spec in specs
        },
    )


def check_record(
    specs: Sequence[FeatureSpec], path: str, record: bytes
) -> None:
    """Checks before a run that a record of a file fits the specs.

    Raises ValueError if it is not a `tf.train.Example`, lacks a feature, or has
    another type or length of it; the error names the flag to change.
    """
    try:
        features = tf.train.Example.FromString(record).features.feature
    except message.DecodeError:
        raise ValueError(
            f"{path}: its first record is not a tf.train.Example; give files "
            "written by this project or by the original BERT."
        ) from None
    names = ", ".join(sorted(features))
    for spec in specs:
        kind = features[spec.name].WhichOneof("kind")
        if kind != _KINDS[spec.dtype]:
            raise ValueError(
                f"{path}: feature {spec.name} is {kind or 'missing'}, expected "
                f"{_KINDS[spec.dtype]}; its records have {names or 'none'}. "
                "Give files written for this program."
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
    """Returns index and problem of the first record `parse_batch` refuses.

    None if all records fit.
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
    for spec in specs:
        if spec.limit is None:
            continue
        values = features[spec.name].numpy()
        is_out = values.view(np.uint64) >= spec.limit
        if is_out.any():
            row = int(np.argmax(is_out.any(axis=1)))
            worst = values[row][is_out[row]].max()
            return row, (
                f"feature {spec.name} holds {worst}, but the model allows 0 to "
                f"{spec.limit - 1}. {_reason(spec)}"
            )
    return None


def _reason(spec: FeatureSpec) -> str:
    """Says how a value may have got out of range."""
    if spec.name == "segment_ids" and spec.limit == 1:
        return (
            "Segment 1 is the second of two texts, for which the model has no "
            "segment type (type_vocab_size 1): take a model with "
            "type_vocab_size 2, or single texts"
        )
    return (
        "The records were made with another vocabulary, length or set of "
        "labels than the model's"
    )


def feature_names(path: str) -> frozenset[str]:
    """Returns the features' names of a file's first undamaged record.

    Empty if there is no such record, or it is not a `tf.train.Example`.
    """
    first = next(tfrecord.whole_records(path), b"")
    try:
        return frozenset(tf.train.Example.FromString(first).features.feature)
    except message.DecodeError:
        return frozenset()


def count_records(path: str) -> int:
    """Counts a file's records, at least 1, and verifies every checksum.

    A truncated, damaged or empty file raises tfrecord.DamagedError, which names
    the record.
    """
    # tf.data takes a truncated header, and any truncation of a gzip file, for
    # the end of the file.
    count = sum(1 for _ in tfrecord.read_records(path))
    if not count:
        raise tfrecord.DamagedError(f"{path} holds no records; write it again.")
    return count


def read_from(
    path: tf.Tensor, compression: tf.Tensor, start: tf.Tensor
) -> tf.data.Dataset:
    """Reads a file's serialized records from a byte offset; for a dataset.

    The scalar tensors are the path, "" or "GZIP", and the first byte of a
    record (0 if compressed).
    """
    # tf.data.TFRecordDataset has no offset. Its kernel has one but cannot be
    # the outermost dataset, because its AsGraphDef leaves out the offset.
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=[path],
        compression_type=compression,
        buffer_size=tf.constant(_READ_BYTES, tf.int64),
        byte_offsets=[tf.cast(start, tf.int64)],
    )
    spec = tf.TensorSpec([], tf.string)
    return tf.data.experimental.from_variant(variant, spec)
