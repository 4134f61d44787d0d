"""Prediction files of no question; the others are in answers_test.py."""

from data.squad.predictions import open_writer


def test_files_without_questions_are_empty_objects(tmp_path):
    with open_writer(str(tmp_path), False):
        pass
    for name in ("predictions", "nbest_predictions"):
        assert (tmp_path / f"{name}.json").read_text() == "{}\n"
