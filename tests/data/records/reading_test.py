import numpy as np
import pytest
import tensorflow as tf

from data.records import feature_spec, reading
from data.records.feature_spec import FeatureSpec

SPECS = (
    FeatureSpec("ids", 3, flag="max_seq_length"),
    FeatureSpec("weights", 2, "float32"),
)


def test_the_originals_records_parse(goldens):
    specs = feature_spec.pretraining_features(64, 10)
    path = str(goldens / "pretraining_data" / "wordpiece_masking.tf_record")
    dataset = tf.data.TFRecordDataset(path).batch(16)
    batch = reading.parse_batch(specs, next(iter(dataset)))
    # Written by the original's input pipeline from the same first 16 records.
    expected = np.load(goldens / "model" / "pretraining_trajectory.npz")
    for spec in specs:
        values = expected[f"batch0/{spec.name}"]
        assert batch[spec.name].dtype == values.dtype
        np.testing.assert_array_equal(batch[spec.name], values)


@pytest.mark.parametrize(
    ("seq", "predictions", "message"),
    [
        (128, 10, "input_ids is int64_.* 64 .* 128; .* --max_seq_length=64"),
        (64, 20, "masked_lm_.* 10 .* 20; .* --max_predictions_per_seq=10"),
    ],
)
def test_records_of_another_length_name_the_flag(seq, predictions, message):
    specs = feature_spec.pretraining_features(64, 10)
    columns = {s.name: np.zeros((1, s.length), s.dtype) for s in specs}
    (record,) = feature_spec.encode_examples(specs, columns)
    reading.check_record(specs, "in.rec", record)
    other = feature_spec.pretraining_features(seq, predictions)
    with pytest.raises(ValueError, match=f"^in.rec: feature {message}.$"):
        reading.check_record(other, "in.rec", record)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (("input_ids", 3), "s is missing .* has ids, weights: wr"),
        (("ids", 3, "float32"), "ids is int64_.*, expected float_list"),
    ],
)
def test_records_of_another_kind_are_refused(spec, message):
    columns = {"ids": np.array([[1, 2, 3]]), "weights": np.zeros((1, 2), "f4")}
    (record,) = feature_spec.encode_examples(SPECS, columns)
    with pytest.raises(ValueError, match=message):
        reading.check_record([FeatureSpec(*spec)], "in.rec", record)


def test_text_is_no_record():
    with pytest.raises(ValueError, match="is missing .* record has none: wr"):
        reading.check_record(SPECS, "in.rec", b"\xff\xff text")


def test_an_empty_or_missing_file_is_refused(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="empty holds no records; write it"):
        reading.count_records(str(tmp_path / "empty"))
    with pytest.raises(FileNotFoundError, match="absent: no such record file"):
        reading.count_records(str(tmp_path / "absent"))
