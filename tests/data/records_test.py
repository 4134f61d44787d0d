"""Records: one spec writes and parses; files that do not fit say so."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from data import records

SPECS = (
    records.FeatureSpec("ids", 3, flag="max_seq_length"),
    records.FeatureSpec("weights", 2, "float32"),
)
INT32 = st.integers(-(2**31), 2**31 - 1)


def write(path, serialized):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in serialized:
            writer.write(record)
    return str(path)


@given(
    st.lists(
        st.tuples(
            st.lists(INT32, min_size=3, max_size=3),
            st.lists(st.floats(width=32), min_size=2, max_size=2),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_what_is_serialized_is_parsed(rows):
    batch = records.parse_batch(
        SPECS,
        [records.serialize(SPECS, {"ids": i, "weights": w}) for i, w in rows],
    )
    assert batch["ids"].dtype == tf.int32
    assert batch["weights"].dtype == tf.float32
    np.testing.assert_array_equal(batch["ids"], [i for i, _ in rows])
    np.testing.assert_array_equal(
        batch["weights"], np.array([w for _, w in rows], np.float32)
    )


def test_the_originals_records_parse(goldens):
    specs = records.pretraining_features(64, 10)
    path = str(goldens / "pretraining_data" / "wordpiece_masking.tf_record")
    dataset = tf.data.TFRecordDataset(path).batch(16)
    batch = records.parse_batch(specs, next(iter(dataset)))
    # Written by the original's input pipeline from the same first 16 records.
    expected = np.load(goldens / "model" / "pretraining_trajectory.npz")
    for spec in specs:
        values = expected[f"batch0/{spec.name}"]
        np.testing.assert_array_equal(batch[spec.name], values)


def test_serialize_refuses_another_length():
    with pytest.raises(ValueError, match="feature ids has 2 values, but its"):
        records.serialize(SPECS, {"ids": [1, 2], "weights": [0.0, 0.0]})


@pytest.mark.parametrize(
    ("seq", "predictions", "expected"),
    [
        (
            128,
            10,
            "in.rec: feature input_ids has 64 values, expected 128; pass "
            "--max_seq_length=64 or write the records again.",
        ),
        (
            64,
            20,
            "in.rec: feature masked_lm_positions has 10 values, expected 20; "
            "pass --max_predictions_per_seq=10 or write the records again.",
        ),
    ],
)
def test_records_of_another_length_name_the_flag(seq, predictions, expected):
    specs = records.pretraining_features(64, 10)
    record = records.serialize(specs, {s.name: [0] * s.length for s in specs})
    records.check_record(specs, "in.rec", record)
    other = records.pretraining_features(seq, predictions)
    with pytest.raises(ValueError) as error:
        records.check_record(other, "in.rec", record)
    assert str(error.value) == expected


def test_records_of_another_kind_are_refused():
    record = records.serialize(SPECS, {"ids": [1, 2, 3], "weights": [0.0] * 2})
    missing = (records.FeatureSpec("input_ids", 3),)
    with pytest.raises(ValueError, match="no feature input_ids, only ids, wei"):
        records.check_record(missing, "in.rec", record)
    retyped = (records.FeatureSpec("ids", 3, "float32"),)
    with pytest.raises(ValueError, match="is a int64_list, expected a float_"):
        records.check_record(retyped, "in.rec", record)
    with pytest.raises(ValueError, match="first record is no tf.train.Example"):
        records.check_record(SPECS, "in.rec", b"\xff\xff text")


def test_count_records(tmp_path):
    path = write(tmp_path / "three", [b"a", b"", b"longer than the others"])
    assert records.count_records(path) == 3


# Each record of 10 bytes takes 26 in the file: 12 header, 10 data, 4 checksum.
@pytest.mark.parametrize(
    ("damage", "number"),
    [
        (lambda data: data[:-1], 3),  # the last checksum is cut
        (lambda data: data[: 2 * 26 + 5], 3),  # a header is cut
        (lambda data: data[:26] + b"?" + data[27:], 2),  # a header is wrong
        (lambda data: data[:15] + b"?" + data[16:], 1),  # data is wrong
        (lambda data: b"no records", 1),
    ],
)
def test_a_damaged_file_names_the_record(tmp_path, damage, number):
    path = tmp_path / "damaged"
    write(path, [b"0123456789"] * 3)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError) as error:
        records.count_records(str(path))
    assert str(error.value) == (
        f"{path}: record {number} is cut short or damaged; copy or write the "
        "file again."
    )


def test_an_empty_or_missing_file_is_refused(tmp_path):
    empty = write(tmp_path / "empty", [])
    with pytest.raises(ValueError, match="empty holds no records; write it"):
        records.count_records(empty)
    with pytest.raises(FileNotFoundError, match="absent: no such record file"):
        records.count_records(str(tmp_path / "absent"))
