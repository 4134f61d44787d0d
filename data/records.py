"""Examples on disk: one spec both writes and parses a `tf.train.Example`.

A record holds named features of fixed length. Who writes records and who
reads them share one tuple of `FeatureSpec`, so they cannot drift apart.

Axes: B batch, S sequence, P predictions per sequence.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf import message

# Of each type on disk, the protobuf field that holds it.
_KINDS = {"int64": "int64_list", "float32": "float_list"}
# TFRecord frames a record by its length (8 bytes) and two checksums (4 each).
_FRAME_BYTES = 16


class FeatureSpec(NamedTuple):
    """One feature of a record.

    Attributes:
      name: its key in the `tf.train.Example`.
      length: number of values, the same in every record.
      dtype: type on disk.
      flag: name of the flag that sets the length, for error messages.
    """

    name: str
    length: int
    dtype: Literal["int64", "float32"] = "int64"
    flag: str | None = None


def pretraining_features(
    max_seq_length: int, max_predictions_per_seq: int
) -> tuple[FeatureSpec, ...]:
    """The features of a pretraining record, under the original's names.

    Args:
      max_seq_length: S, tokens with padding.
      max_predictions_per_seq: P, places for masked tokens.

    Returns:
      `input_ids`, `input_mask` (1 = token, 0 = padding) and `segment_ids`,
      each [S]; `masked_lm_positions`, `masked_lm_ids` and
      `masked_lm_weights` (1.0 = a prediction, 0.0 = padding), each [P];
      `next_sentence_labels` [1] (0 = the next sentence, 1 = random).

    Source: write_instance_to_example_files in create_pretraining_data.py.
    """
    seq, predictions = "max_seq_length", "max_predictions_per_seq"
    return (
        FeatureSpec("input_ids", max_seq_length, flag=seq),
        FeatureSpec("input_mask", max_seq_length, flag=seq),
        FeatureSpec("segment_ids", max_seq_length, flag=seq),
        FeatureSpec(
            "masked_lm_positions", max_predictions_per_seq, flag=predictions
        ),
        FeatureSpec("masked_lm_ids", max_predictions_per_seq, flag=predictions),
        FeatureSpec(
            "masked_lm_weights",
            max_predictions_per_seq,
            "float32",
            flag=predictions,
        ),
        FeatureSpec("next_sentence_labels", 1),
    )


def serialize(
    specs: Sequence[FeatureSpec], values: Mapping[str, Sequence[float]]
) -> bytes:
    """Encodes one example.

    Args:
      specs: the features to write.
      values: for each feature's name its `length` numbers; fastest as lists.

    Returns:
      A serialized `tf.train.Example`.

    Raises:
      ValueError: a feature has not the length its spec promises.
    """
    example = tf.train.Example()
    features = example.features.feature
    for spec in specs:
        if len(values[spec.name]) != spec.length:
            raise ValueError(
                f"feature {spec.name} has {len(values[spec.name])} values, "
                f"but its spec says {spec.length}."
            )
        values_on_disk = getattr(features[spec.name], _KINDS[spec.dtype]).value
        values_on_disk.extend(values[spec.name])
    return example.SerializeToString()


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
      tf.errors.InvalidArgumentError: a record lacks a feature or has it in
        another length (`check_record` says so more clearly).

    Source: _decode_record of input_fn_builder in run_pretraining.py.
    """
    features = tf.io.parse_example(
        serialized,
        {
            spec.name: tf.io.FixedLenFeature([spec.length], spec.dtype)
            for spec in specs
        },
    )
    # int32, as in the original: TPUs have no int64.
    return {
        name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
        for name, value in features.items()
    }


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


def count_records(path: str) -> int:
    """Counts a TFRecord file's records and verifies every checksum.

    Args:
      path: an uncompressed TFRecord file.

    Returns:
      The number of records, at least 1.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file is empty, cut short or damaged; says at which
        record.
    """
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        raise FileNotFoundError(f"{path}: no such record file.")
    dataset = tf.data.TFRecordDataset(path)
    count, num_bytes = 0, 0
    try:
        # Batched: twenty times the speed of one record at a time.
        count, num_bytes = (
            dataset.batch(1024)
            .reduce(
                np.zeros(2, np.int64),
                lambda totals, batch: totals + _count_and_bytes(batch),
            )
            .numpy()
        )
    except tf.errors.DataLossError:
        # The slow way, one by one, only to find the damaged record's place.
        with contextlib.suppress(tf.errors.DataLossError):
            for _ in dataset:
                count += 1
    # The reader takes a header cut short for the end of the file: hence the
    # check of the size.
    if num_bytes != tf.io.gfile.stat(path).length:
        raise ValueError(
            f"{path}: record {count + 1} is cut short or damaged; copy or "
            "write the file again."
        )
    if not count:
        raise ValueError(f"{path} holds no records; write it again.")
    return int(count)


def _count_and_bytes(batch: tf.Tensor) -> tf.Tensor:
    """What records [B] add to their number and to the bytes of the file."""
    num_bytes = _FRAME_BYTES + tf.cast(tf.strings.length(batch), tf.int64)
    return tf.stack(
        [tf.size(batch, out_type=tf.int64), tf.reduce_sum(num_bytes)]
    )
