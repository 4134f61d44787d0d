"""Specifies and encodes the features of a `tf.train.Example`.

A record has named features of fixed length. Writing and reading (`reading`)
use the same `FeatureSpec`s. Writing does not need TensorFlow.

Axes: N records, L values of a feature, W bytes; S sequence, P predictions per
sequence.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from data.text.packing import INPUTS

# The next-sentence label of a record without a sentence pair. The original's
# program can read it: the one-hot row and so the next-sentence loss are 0.
NO_PAIR = -1
# The feature of a teacher's logits, of an example or of all its wordpieces.
TEACHER_LOGITS = "teacher_logits"

# Rows encoded at once: 2 MB at S = 128, which fits in a processor's cache.
_BLOCK = 1024

# Tags of protobuf fields of bytes, `number << 3 | 2`, in the messages
# Example { Features features = 1 }, Features { map<string, Feature> = 1 },
# Feature { BytesList = 1, FloatList = 2, Int64List = 3 } and, inside the last
# two, the values packed = 1; a map's entry is { key = 1, value = 2 }.
_FIRST, _SECOND = b"\x0a", b"\x12"
_KIND_TAGS = {"int64": b"\x1a", "float32": b"\x12"}


class FeatureSpec(NamedTuple):
    """One feature of a record.

    `length` is the number of values in each record, `flag` the flag that sets
    it, for errors; `dtype` the type on disk; `limit` the upper bound
    (exclusive) of the values, which must be at least 0; None = any value.
    """

    name: str
    length: int
    dtype: Literal["int64", "float32"] = "int64"
    flag: str | None = None
    limit: int | None = None


def input_features(length: int) -> list[FeatureSpec]:
    """The features `INPUTS`, in rows of `length` tokens."""
    return [FeatureSpec(name, length, flag="max_seq_length") for name in INPUTS]


def pretraining_features(
    max_seq_length: int,
    max_predictions_per_seq: int,
    masked: bool = True,
    pairs: bool = True,
) -> tuple[FeatureSpec, ...]:
    """The features of a pretraining record, under the original's names.

    These are `INPUTS`, each [S]; `masked_lm_positions`, `masked_lm_ids` and
    `masked_lm_weights` (1.0 = a prediction, 0.0 = padding), each [P];
    `next_sentence_labels` [1] (0 = the next sentence, 1 = random, `NO_PAIR` =
    no pair). Records without `masked` are masked while they are read; those
    without `pairs` are read without the label.

    Source: write_instance_to_example_files in create_pretraining_data.py.
    """
    specs = input_features(max_seq_length)
    if masked:
        length, flag = max_predictions_per_seq, "max_predictions_per_seq"
        specs += [
            FeatureSpec("masked_lm_positions", length, "int64", flag),
            FeatureSpec("masked_lm_ids", length, "int64", flag),
            FeatureSpec("masked_lm_weights", length, "float32", flag),
        ]
    if pairs:
        specs.append(FeatureSpec("next_sentence_labels", 1))
    return tuple(specs)


class _Cells(NamedTuple):
    """A grid of bytes: uint8 [N, W] `cells`, of which bool [N, W] are `used`.

    The first axis is 1 if all rows are the same.
    """

    cells: np.ndarray
    used: np.ndarray

    def sizes(self) -> np.ndarray:
        """Number of bytes used by each row: int64 [N, 1] or [1, 1]."""
        return np.count_nonzero(self.used, axis=1, keepdims=True)


def encode_examples(
    specs: Sequence[FeatureSpec], columns: Mapping[str, np.ndarray]
) -> list[bytes]:
    """Encodes many examples at once, each from its own values only.

    `columns` are feature name -> values [N, length] of the spec's type, else
    ValueError. Returns N serialized `tf.train.Example`s, with the features in
    the order of the specs.
    """
    arrays = {spec.name: np.asarray(columns[spec.name]) for spec in specs}
    num_records = len(arrays[specs[0].name])
    for spec in specs:
        values, shape = arrays[spec.name], (num_records, spec.length)
        if values.shape != shape or not np.can_cast(
            values.dtype, spec.dtype, "same_kind"
        ):
            raise ValueError(
                f"feature {spec.name} is {values.dtype} {values.shape}, but "
                f"its spec says {spec.dtype} {shape}."
            )
    encoded = []
    for start in range(0, num_records, _BLOCK):
        block = {name: x[start : start + _BLOCK] for name, x in arrays.items()}
        encoded += _encode_block(specs, block)
    return encoded


def _encode_block(specs, arrays) -> list[bytes]:
    """Encodes all records in one grid and returns the used bytes."""
    parts, size = [], 0
    for spec in specs:
        feature, feature_size = _feature(spec, arrays[spec.name])
        parts += feature
        size = size + feature_size
    parts, size = _enclose(parts, size, _FIRST)
    num_rows = len(arrays[specs[0].name])
    cells, used = (
        np.concatenate(
            [np.broadcast_to(x, (num_rows, x.shape[1])) for x in grids], axis=1
        )
        for grids in zip(*parts, strict=True)
    )
    # Several times faster than cells[used].
    data = np.compress(used.ravel(), cells.ravel()).tobytes()
    ends = np.cumsum(np.broadcast_to(size, (num_rows, 1))).tolist()
    return [data[start:end] for start, end in itertools.pairwise([0, *ends])]


def _feature(
    spec: FeatureSpec, values: np.ndarray
) -> tuple[list[_Cells], np.ndarray]:
    """Returns an entry of the map of features, and its size in each row."""
    if spec.dtype == "float32":
        payload = np.ascontiguousarray(values, "<f4").view(np.uint8)
        payload = _Cells(payload, np.ones((1, payload.shape[1]), bool))
    else:
        payload = _varints(values)
    name = spec.name.encode()
    (key,) = _varints(np.array([[len(name)]])).cells
    key = _FIRST + key.tobytes() + name + _SECOND
    parts, size = [payload], payload.sizes()
    for before in (_FIRST, _KIND_TAGS[spec.dtype], key, _FIRST):
        parts, size = _enclose(parts, size, before)
    return parts, size


def _enclose(
    parts: list[_Cells], size: np.ndarray, before: bytes
) -> tuple[list[_Cells], np.ndarray]:
    """Makes a protobuf field of the tag `before`, the size and the parts."""
    tag = np.frombuffer(before, np.uint8)[None]
    header = [_Cells(tag, np.ones_like(tag, bool)), _varints(size)]
    return header + parts, size + len(before) + header[1].sizes()


def _varints(values: np.ndarray) -> _Cells:
    """Encodes integers [N, L] with seven bits in a byte, lowest first."""
    if values.size and values.min() < 0:
        # protobuf's int64 is the two's complement, ten bytes.
        values = values.astype(np.int64).view(np.uint64)
    largest = int(values.max(initial=0))
    values = values.astype(np.min_scalar_type(largest))  # the fewest bytes
    width = max(1, -(-largest.bit_length() // 7))
    if width == 1:
        return _Cells(values, np.ones((1, values.shape[1]), bool))
    cells = np.empty((*values.shape, width), np.uint8)
    used = np.empty(cells.shape, bool)
    for i in range(width):
        used[..., i] = values != 0 if i else True
        # The highest bit says that more bytes follow.
        cells[..., i] = values & 0x7F | (values > 0x7F).view(np.uint8) << 7
        values = values >> 7
    return _Cells(cells.reshape(len(cells), -1), used.reshape(len(used), -1))
