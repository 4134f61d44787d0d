"""One temperature and a threshold of each label."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import f1_score, precision_recall_curve

from data import calibration
from data.calibration import Calibration, decide, figures, fit, log_loss

LABELS = ("a", "b", "c")


class Logits(ClassifierMixin, BaseEstimator):
    """Its inputs are its logits."""

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, x):
        return x

    def predict(self, x):
        return x.argmax(1)


def overconfident(kind):
    """Logits that are 2.5 times too large, and labels drawn by the right."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(600, 3)) * 3
    if kind == "multilabel":
        gold = rng.random(logits.shape) < 1 / (1 + np.exp(-logits / 2.5))
        return logits, 1 / (1 + np.exp(-logits)), gold.astype(int)
    gold = np.array([rng.choice(3, p=p) for p in softmax(logits / 2.5, axis=1)])
    return logits, softmax(logits, axis=1), gold


def test_the_temperature_is_that_of_scikit_learn():
    logits, raw, gold = overconfident("classification")
    found = fit("classification", gold, raw.astype(np.float32))
    theirs = CalibratedClassifierCV(
        FrozenEstimator(Logits().fit(logits, gold)), method="temperature"
    ).fit(logits, gold)
    ours = found.probabilities(raw.astype(np.float32), "classification")
    np.testing.assert_allclose(ours, theirs.predict_proba(logits), atol=1e-4)
    assert 2.2 < found.temperature < 2.9


def test_several_labels_have_one_temperature_and_thresholds_best_for_f1():
    logits, raw, gold = overconfident("multilabel")
    raw = raw.astype(np.float32)
    found = fit("multilabel", gold, raw)
    calibrated = found.probabilities(raw, "multilabel")
    expected = 1 / (1 + np.exp(-logits / found.temperature))
    np.testing.assert_allclose(calibrated, expected, atol=1e-5)
    answers = decide("multilabel", calibrated, found.thresholds)
    for label in range(3):
        column = calibrated[:, label]
        precision, recall, _ = precision_recall_curve(gold[:, label], column)
        best = (2 * precision * recall / (precision + recall)).max()
        found_f1 = f1_score(gold[:, label], answers[:, label])
        assert found_f1 == pytest.approx(best, rel=1e-12)
    told = figures("multilabel", LABELS, gold, raw, found)
    assert told["log_loss"]["after"] < told["log_loss"]["before"]
    assert told["log_loss"]["after"] == log_loss("multilabel", gold, calibrated)
    assert "answers_above" not in told


def test_answers_above_a_probability_have_coverage_and_accuracy():
    raw = np.array(
        [[0.97, 0.02, 0.01], [0.3, 0.62, 0.08], [0.4, 0.3, 0.3]], np.float32
    )
    found = Calibration(1.0, (0.5, 0.5, 0.5))
    told = figures("classification", LABELS, np.array([0, 2, 0]), raw, found)
    rows = {x.pop("above"): x for x in told["answers_above"]}
    assert rows[0.0] == {"coverage": 1.0, "accuracy": 2 / 3}
    assert rows[0.5] == {"coverage": 2 / 3, "accuracy": 0.5}
    assert rows[0.95] == {"coverage": 1 / 3, "accuracy": 1.0}
    assert rows[0.99] == {"coverage": 0.0, "accuracy": None}


def test_two_labels_are_told_apart_by_the_threshold_of_the_second():
    raw = np.array([[0.7, 0.3], [0.9, 0.1]], np.float32)
    assert decide("classification", raw).tolist() == [0, 0]
    assert decide("classification", raw, (0.8, 0.2)).tolist() == [1, 0]
    # Of three the most probable is the answer.
    raw = np.array([[0.5, 0.4, 0.1]], np.float32)
    assert decide("classification", raw, (0.9, 0.1, 0.1)).tolist() == [0]


def test_a_set_without_an_error_leaves_the_temperature():
    raw = np.array([[0.9, 0.1], [0.2, 0.8]] * 9, np.float32)
    found = fit("classification", np.array([0, 1] * 9), raw)
    assert found.temperature == 1
    assert 0.1 < found.thresholds[1] < 0.8
    calibrated = found.probabilities(raw, "classification")
    np.testing.assert_array_equal(calibrated, raw)


def test_a_threshold_parts_neighbors_among_float32_numbers():
    most = np.float32(1)
    second = np.array([np.nextafter(most, 0, dtype="f4"), 1, 1, 0.5, 0.9], "f4")
    raw = np.stack([1 - second, second], axis=1)
    gold = np.array([0, 1, 1, 0, 0])
    found = fit("classification", gold, raw)
    calibrated = found.probabilities(raw, "classification")
    answers = decide("classification", calibrated, found.thresholds)
    assert answers.tolist() == gold.tolist()


def test_a_label_that_all_or_none_have_keeps_the_usual_threshold():
    raw = np.array([[0.9, 0.1], [0.7, 0.4], [0.4, 0.2]], np.float32)
    gold = np.array([[1, 0], [1, 0], [1, 0]])
    assert fit("multilabel", gold, raw).thresholds == (0.5, 0.5)


def test_saturated_probabilities_stay_finite():
    raw = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    for kind in ("classification", "multilabel"):
        found = Calibration(2.0).probabilities(raw, kind)
        assert np.isfinite(found).all()
        assert (found.argmax(1) == [0, 1]).all()


def test_other_kinds_are_refused():
    for kind in ("regression", "choice", "tagging"):
        with pytest.raises(ValueError, match=f"--calibrate.*{kind}.*leave"):
            calibration.require_labels(kind, "--calibrate")
