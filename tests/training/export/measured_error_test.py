"""What the arithmetic of an export costs: its error, measured on records."""

import numpy as np
import pytest
import tensorflow as tf

from data.finetuning.feature_options import feature_specs
from data.records import tfrecord
from tests.support import rounding
from tests.support.records_support import write_examples
from tests.support.serving_support import (
    INPUTS,
    LENGTH,
    examples_of,
    finished_run,
    rows_of,
)
from training.export import saved_model


@pytest.fixture(scope="module")
def precisions(goldens, tmp_path_factory):
    """A model, and its functions in float32 and in bfloat16."""
    folder = tmp_path_factory.mktemp("precisions")
    model = finished_run(goldens, folder, "classification")
    exact = saved_model.load(str(folder))
    return model, exact, saved_model.load(str(folder), "bfloat16")


def write_records(folder, kind, rows, length=LENGTH):
    """Records of the dev set of a model with two labels."""
    specs = feature_specs(kind, length, 2)
    write_examples(folder / "eval.tf_record", specs, rows)


@pytest.mark.parametrize("has_records", [True, False])
def test_bfloat16_is_measured(tmp_path, goldens, precisions, has_records):
    model, exact, rounded = precisions
    examples = examples_of("classification", False, 6)
    rows = rows_of(goldens, "classification", examples)
    source = "8 rows of random wordpieces"
    if has_records:
        write_records(tmp_path, "classification", rows)
        source = "the first 6 records of the dev set"
    error = saved_model.measure_error(
        exact, rounded, str(tmp_path), num_random=8
    )
    assert error["compared"] == source
    assert 1e-6 < error["mean difference"] < error["largest difference"]
    # A softmax makes half of its logits' error at most.
    logits = model.logits(
        {name: rows[name].astype(np.int32) for name in INPUTS}
    )
    scale = rounding.root_mean_square(logits) / 2
    num_roundings = rounding.EMBEDDINGS + 3 * rounding.BLOCK
    num_roundings += rounding.POOLER + rounding.DENSE
    rounds = scale, "bfloat16", num_roundings
    assert error["mean difference"] < rounding.deviation(*rounds)
    assert error["largest difference"] < rounding.most(*rounds)
    assert 0.5 < error["share of equal labels"] <= 1
    same = saved_model.measure_error(exact, exact, str(tmp_path), num_random=8)
    del same["compared"]
    assert [*same.values()] == [0, 0, 1]


def test_padding_does_not_count_in_the_measured_error(tmp_path, goldens):
    finished_run(goldens, tmp_path, "tagging")
    precisions = "float32", "bfloat16"
    both = [saved_model.load(str(tmp_path), p) for p in precisions]
    rows = rows_of(goldens, "tagging", examples_of("tagging", False, 6))
    write_records(tmp_path, "tagging", rows)
    error = saved_model.measure_error(*both, str(tmp_path))
    real = rows["input_mask"] > 0
    assert 0 < real.mean() < 1
    inputs = {name: tf.constant(rows[name], tf.int32) for name in INPUTS}
    exact, rounded = (x.signatures["serving_default"](**inputs) for x in both)
    differences = np.abs(exact["probabilities"] - rounded["probabilities"])
    assert error["mean difference"] == pytest.approx(differences[real].mean())
    same = exact["label"].numpy() == rounded["label"].numpy()
    assert error["share of equal labels"] == pytest.approx(same[real].mean())


def test_records_of_another_length_are_refused(tmp_path, precisions):
    _, exact, _ = precisions
    with tfrecord.RecordWriter(str(tmp_path / "eval.tf_record")):
        pass
    error = saved_model.measure_error(exact, exact, str(tmp_path), num_random=2)
    assert error["compared"] == "2 rows of random wordpieces"
    specs = feature_specs("classification", LENGTH // 2, 2)
    rows = {spec.name: np.zeros((1, spec.length), int) for spec in specs}
    write_records(tmp_path, "classification", rows, LENGTH // 2)
    with pytest.raises(ValueError, match="eval.tf_record: .* model, .* remove"):
        saved_model.measure_error(exact, exact, str(tmp_path))
