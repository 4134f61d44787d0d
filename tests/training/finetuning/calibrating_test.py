"""A calibration is kept with the weights that it belongs to."""

import functools
import json
import shutil

import numpy as np
import pytest

import bert
import modeling
from data.calibration import Calibration
from tests.support.classifier_support import write_table
from tests.support.conversion_support import convert
from tests.support.finished_runs import CLASSIFIER
from tests.support.model_folder_support import add_to_weight
from tests.support.run_files import cells_in, json_lines_in
from tests.training.finetuning_support import options_of
from training.export import saved_model
from training.finetuning import calibrating
from training.runs import classifier


def run_in(folder, goldens, **changes):
    finetuning = CLASSIFIER | changes.pop("finetuning", {})
    works = dict.fromkeys(("do_train", "do_eval", "do_predict"), False)
    return classifier.run(
        options_of(goldens, folder, finetuning=finetuning, **works | changes)
    )


@pytest.fixture(scope="module")
def fitted(goldens, finished_classifier, tmp_path_factory):
    """A finished run that is calibrated.

    Its calibration.json has a temperature that differs from 1, and a threshold
    that gives every text the second label.
    """
    folder = tmp_path_factory.mktemp("fitted")
    shutil.copytree(finished_classifier, folder, dirs_exist_ok=True)
    run_in(folder, goldens, do_eval=True, calibrate=True)
    path = folder / "out/calibration.json"
    facts = json.loads(path.read_text())
    facts |= {"temperature": 2.0, "thresholds": [0.5, 0.001]}
    path.write_text(json.dumps(facts))
    return folder


@pytest.fixture
def calibrated(goldens, fitted, tmp_path):
    """A copy in tmp_path, and a function that runs a command in it."""
    shutil.copytree(fitted, tmp_path, dirs_exist_ok=True)
    return functools.partial(run_in, tmp_path, goldens)


def tempered(probabilities):
    """Divides the logits by 2."""
    roots = np.sqrt(np.asarray(probabilities, np.float64))
    return roots / roots.sum(axis=-1, keepdims=True)


def results(tmp_path):
    return np.loadtxt(tmp_path / "out/test_results.tsv", ndmin=2)


@pytest.mark.all
def test_answers_and_exports_use_what_the_folder_keeps(calibrated, tmp_path):
    raw = results(tmp_path)
    calibrated(do_predict=True)
    np.testing.assert_allclose(results(tmp_path), tempered(raw), atol=1e-5)
    out = str(tmp_path / "out")
    second = (tmp_path / "out/labels.txt").read_text().split()[1]
    _, *rows = cells_in(tmp_path / "out/predictions.tsv")
    assert {row[1] for row in rows} == {second}
    texts = ["a fine film", "dull"]
    plain = bert.load(out, use_calibration=False).predict(texts)
    for before, after in zip(plain, bert.load(out).predict(texts), strict=True):
        expected = tempered(list(before["probabilities"].values()))
        got = list(after["probabilities"].values())
        np.testing.assert_allclose(got, expected, atol=1e-5)
        assert after["label"] == second
        assert after["score"] == after["probabilities"][second]
    kept = Calibration(temperature=2.0, thresholds=(0.5, 0.001))
    assert saved_model.load(out).calibration == kept
    of_run = saved_model.load(out, use_calibration=False)
    assert of_run.calibration == Calibration()
    # The flag switches it off.
    calibrated(do_predict=True, use_calibration=False)
    np.testing.assert_allclose(results(tmp_path), raw, atol=1e-6)


@pytest.mark.all
def test_other_weights_have_no_old_calibration(calibrated, tmp_path, caplog):
    """The output layer is the same, as that of a model with fewer layers."""
    out = str(tmp_path / "out")
    add_to_weight(out, "bert/encoder/layer_0/output/LayerNorm/beta")
    (tmp_path / "out/model.ckpt-6.resume.json").unlink()  # has a checksum
    calibrated(do_predict=True)
    assert "calibration.json belongs to other weights" in caplog.text
    assert "--do_eval --calibrate" in caplog.text
    now = results(tmp_path)
    caplog.clear()
    calibrated(do_predict=True, use_calibration=False)
    np.testing.assert_array_equal(now, results(tmp_path))
    assert "calibration" not in caplog.text
    texts = [row["text"] for row in json_lines_in(tmp_path / "data/test.jsonl")]
    found = [
        [*x["probabilities"].values()] for x in bert.load(out).predict(texts)
    ]
    # Python predicts in batches of other lengths.
    np.testing.assert_allclose(found, now, atol=1e-5)
    assert "calibration.json belongs to other weights" in caplog.text


def test_a_calibration_for_other_texts_is_not_kept(calibrated, tmp_path):
    path = tmp_path / "out/calibration.json"
    before = path.read_bytes()
    with pytest.raises(ValueError, match="--calibrate.*--max_seq_length=5"):
        calibrated(
            do_eval=True, calibrate=True, finetuning={"max_seq_length": 5}
        )
    assert path.read_bytes() == before


def test_a_new_folder_finds_the_calibration_beside_its_weights(
    calibrated, goldens, tmp_path
):
    """The best weights lie in a folder of their own."""
    raw = results(tmp_path)
    weights = str(tmp_path / "out/best/model.ckpt-6")
    (tmp_path / "out/best").mkdir()
    for path in (tmp_path / "out").glob("model.ckpt-6.*"):
        shutil.copy(path, tmp_path / "out/best")
    shutil.copytree(tmp_path / "data", tmp_path / "new/data")
    first = {"finetuning": {"init_checkpoint": weights}, "do_predict": True}
    run_in(tmp_path / "new", goldens, **first)
    found = results(tmp_path / "new")
    np.testing.assert_allclose(found, tempered(raw), atol=1e-5)


@pytest.mark.all
def test_a_converted_model_keeps_its_calibration(calibrated, tmp_path, caplog):
    out, texts = str(tmp_path / "out"), ["a fine film", "dull"]
    theirs = convert(out, f"{tmp_path}/theirs")
    expected = bert.load(out).predict(texts)
    for folder in (theirs, convert(theirs, f"{tmp_path}/ours")):
        for answer, right in zip(
            bert.load(folder).predict(texts), expected, strict=True
        ):
            assert answer["label"] == right["label"]
            assert answer["score"] == pytest.approx(right["score"], abs=1e-5)
    smaller = convert(out, f"{tmp_path}/smaller", keep_layers=(0,))
    assert not (tmp_path / "smaller/calibration.json").exists()
    assert "calibration.json is left out" in caplog.text
    assert bert.load(smaller).predict(texts)


def test_metrics_and_the_page_have_the_table(fitted):
    told = json.loads((fitted / "out/metrics.json").read_text())
    of_dev = told["calibration"]["dev"]
    assert set(of_dev) >= {"temperature", "thresholds", "answers_above"}
    page = (fitted / "out/errors.html").read_text()
    assert '"answers_above": [{"above": 0.0, "coverage": 1.0' in page


@pytest.mark.parametrize("kind", ["regression", "choice"])
def test_calibrating_what_cannot_be_is_refused_early(goldens, tmp_path, kind):
    write_table(tmp_path / "data", kind)
    options = options_of(goldens, tmp_path, kind, calibrate=True)
    with pytest.raises(ValueError, match=f"--calibrate.*{kind}"):
        classifier.run(options)
    assert not [*(tmp_path / "out").glob("*.tf_record*")]


def test_a_damaged_calibration_is_refused(fitted, tmp_path):
    model = modeling.load(str(fitted / "out")).model
    facts = json.loads((fitted / "out/calibration.json").read_text())
    for damage in (
        {"temperature": "hot"},
        {"temperature": 0},
        {"thresholds": [0.1, 0.2, 0.3]},
    ):
        (tmp_path / "calibration.json").write_text(json.dumps(facts | damage))
        with pytest.raises(ValueError, match="damaged.*--calibrate, or remove"):
            calibrating.find(str(tmp_path), str(tmp_path), model)
