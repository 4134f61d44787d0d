"""Records without TensorFlow are what protobuf makes of the same values."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from data.records import feature_spec

SPECS = (
    feature_spec.FeatureSpec("ids", 3, flag="max_seq_length"),
    feature_spec.FeatureSpec("weights", 2, "float32"),
)
# Where a varint gets one byte more, and how large it may be.
EDGES = [0, 1, 127, 128, 16383, 16384, 2**21 - 1, 2**21, 2**40, 2**63 - 1]
INT64 = st.one_of(
    st.sampled_from([*EDGES, -1, -(2**63)]), st.integers(-(2**63), 2**63 - 1)
)
THREE_IDS = st.lists(INT64, min_size=3, max_size=3)
TWO_WEIGHTS = st.lists(st.floats(width=32), min_size=2, max_size=2)


def by_protobuf(specs, columns, row):
    example = tf.train.Example()
    for spec in specs:
        feature = example.features.feature[spec.name]
        values = columns[spec.name][row].tolist()
        if spec.dtype == "int64":
            feature.int64_list.value.extend(map(int, values))
        else:
            feature.float_list.value.extend(values)
    return example


def assert_as_protobuf(specs, columns):
    """The same messages, of the same size: every varint is the shortest."""
    encoded = feature_spec.encode_examples(specs, columns)
    (num_rows,) = {len(values) for values in columns.values()}
    assert len(encoded) == num_rows
    for row, record in enumerate(encoded):
        expected = by_protobuf(specs, columns, row)
        got = tf.train.Example.FromString(record)
        # As bytes of one library, which are equal for nan, too.
        assert got.SerializeToString(deterministic=True) == (
            expected.SerializeToString(deterministic=True)
        )
        assert len(record) == expected.ByteSize()


@given(st.lists(st.tuples(THREE_IDS, TWO_WEIGHTS), max_size=4))
def test_records_are_protobufs(rows):
    ids = np.array([ids for ids, _ in rows], np.int64).reshape(-1, 3)
    weights = [weights for _, weights in rows]
    assert_as_protobuf(
        SPECS,
        {"ids": ids, "weights": np.array(weights, np.float32).reshape(-1, 2)},
    )


# Below and above 128 and 16,384 bytes, where sizes take a byte more.
@pytest.mark.parametrize("length", [1, 100, 127, 128, 5000])
def test_every_width_of_a_feature(length):
    specs = (
        feature_spec.FeatureSpec("a", length),
        feature_spec.FeatureSpec("b" * 130, length, "float32"),
    )
    values = np.arange(2 * length).reshape(2, length)
    values[0] = 0
    assert_as_protobuf(specs, {"a": values, "b" * 130: values.astype("f4")})


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "uint16", ">i8"])
def test_columns_of_every_integer_type(dtype):
    specs = feature_spec.pretraining_features(16, 3)
    rng = np.random.default_rng(5)
    columns = {
        spec.name: rng.integers(0, 100, (7, spec.length)).astype(dtype)
        for spec in specs
    }
    # Not one after the other in memory, as a transposed or cut array is not.
    columns["masked_lm_weights"] = rng.random((7, 6), np.float32)[:, ::2]
    assert_as_protobuf(specs, columns)


def test_a_record_does_not_depend_on_those_beside_it():
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 30_000, (2500, 3)) * rng.integers(0, 2, (2500, 1))
    weights = rng.random((2500, 2), np.float32)

    def encoded(rows):
        columns = {"ids": ids[rows], "weights": weights[rows]}
        return feature_spec.encode_examples(SPECS, columns)

    alone = [encoded(slice(i, i + 1)) for i in range(2500)]
    assert encoded(slice(None)) == sum(alone, [])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.zeros((1, 2), int), r"ids is int64 \(1, 2\), .* says int64 \(1, 3"),
        (np.zeros(3, int), r"ids is int64 \(3,\), but its spec says int64"),
        (np.zeros((1, 3)), r"ids is float64 \(1, 3\), but its spec says int64"),
        (np.zeros((2, 3), int), r"weights is .* \(1, 2\), .* says float32 \(2"),
    ],
)
def test_columns_that_do_not_fit_are_refused(ids, message):
    weights = np.zeros((1, 2), np.float32)
    with pytest.raises(ValueError, match=f"^feature {message}"):
        feature_spec.encode_examples(SPECS, {"ids": ids, "weights": weights})
