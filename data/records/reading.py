"""Checks, counts and parses record files with TensorFlow.

Axes: B batch.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf
from google.protobuf import message

from data.records import tfrecord
from data.records.feature_spec import FeatureSpec

# Type on disk -> protobuf field.
_KINDS = {"int64": "int64_list", "float32": "float_list"}
_OUT_OF_RANGE = "a record holds a value that is out of range"
# Parts of the errors of `parse_batch` that `check_record` explains; the second
# is the name of TensorFlow's operation.
EXPLAINED = (_OUT_OF_RANGE, "ParseExample")


def parse_batch(
    specs: Sequence[FeatureSpec], serialized: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Decodes serialized examples [B]; runs inside tf.data.

    Returns feature name -> tensor [B, length], where int64 became int32;
    features without a spec are ignored. Raises tf.errors.InvalidArgumentError
    if a record lacks a feature or has another length of it, or a value is not
    within its spec's limit (`check_record` has a clearer error).

    Source: _decode_record of input_fn_builder in run_pretraining.py.
    """
    kinds = {x.name: tf.io.FixedLenFeature([x.length], x.dtype) for x in specs}
    features = tf.io.parse_example(serialized, kinds)
    if limited := [spec for spec in specs if spec.limit is not None]:
        # Negative values exceed any limit.
        values = [tf.bitcast(features[x.name], tf.uint64) for x in limited]
        # As few operations as possible: starting one costs more than running
        # it.
        highest = tf.stack([tf.reduce_max(x) for x in values])
        tf.raw_ops.Assert(
            condition=tf.reduce_all(highest < [x.limit for x in limited]),
            data=[_OUT_OF_RANGE, [x.name for x in limited], highest],
        )
    # int32, as in the original, because TPUs have no int64.
    return {
        name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
        for name, value in features.items()
    }


def check_record(
    specs: Sequence[FeatureSpec], place: str, record: bytes
) -> None:
    """Checks that a record fits the specs.

    Raises ValueError if it lacks a feature, has another type or length of it,
    or a value out of range; the error names the `place` and the flag to change.
    """
    features = _features(record)
    names = ", ".join(sorted(features))
    for spec in specs:
        kind = features[spec.name].WhichOneof("kind")
        values = getattr(features[spec.name], kind).value if kind else ()
        expected = _KINDS[spec.dtype], spec.length
        if (kind, len(values)) != expected:
            remedy = "write the records for this program"
            if spec.flag and values:
                remedy += f", or pass --{spec.flag}={len(values)}"
            raise ValueError(
                f"{place}: feature {spec.name} is {kind or 'missing'} with "
                f"{len(values)} values, expected {expected[0]} with "
                f"{expected[1]}; the record has {names or 'none'}: {remedy}."
            )
        if spec.limit is not None and (
            wrong := [x for x in values if not 0 <= x < spec.limit]
        ):
            raise ValueError(
                f"{place}: feature {spec.name} holds {max(wrong)}, but the "
                f"model allows 0 to {spec.limit - 1}. The records were made "
                "with another vocabulary, length or set of labels than the "
                "model's, or (segment_ids) with second texts, for which it "
                "needs type_vocab_size 2; write the file again, or take "
                "another model."
            )


def _features(record: bytes) -> Mapping[str, tf.train.Feature]:
    """Returns a record's features; none if it is not a `tf.train.Example`."""
    try:
        return tf.train.Example.FromString(record).features.feature
    except message.DecodeError:
        return tf.train.Features().feature


def feature_names(path: str) -> frozenset[str]:
    """Returns the features' names of a file's first undamaged record, if any.

    Empty if it is not a `tf.train.Example`.
    """
    return frozenset(_features(next(tfrecord.whole_records(path), b"")))


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
