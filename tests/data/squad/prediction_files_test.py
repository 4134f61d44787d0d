"""Prediction files of no question; the others are in answers_test.py."""

from data.squad.prediction_files import PredictionWriter


def test_files_without_questions_are_empty_objects(tmp_path):
    with PredictionWriter(str(tmp_path), False):
        pass
    for name in ("predictions", "nbest_predictions"):
        assert (tmp_path / f"{name}.json").read_text() == "{}\n"
