"""modeling/README.md says what is true."""

import re

import numpy as np
import pytest

import modeling
from tests.support.docs_support import TOUR


def run_code(before):
    """Runs the code that follows a text; returns its names."""
    tour = TOUR.read_text("utf-8")
    (code,) = re.findall(f"{before}\n\n```python\n(.*?)```", tour, re.S)
    names = {}
    exec(code, names)
    return names


def test_the_three_lines_load_the_originals_weights(
    original, monkeypatch, capsys
):
    monkeypatch.chdir(original.parent)
    names = run_code("## Weights in three lines")
    ids, output = names["ids"], names["output"]
    assert output.get_sequence_output().shape == (1, len(ids), 32)
    printed = capsys.readouterr().out
    assert "pretraining uncased/bert_model.ckpt: 62 variables load" in printed
    assert "0 missing, 0 unused" in printed


@pytest.mark.all  # keras_test.py does it without the page
def test_a_keras_model_trains_and_is_saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_code("## In a Keras model")
    np.testing.assert_array_equal(
        names["scores"], names["model"].predict(names["batch"], verbose=0)
    )


def test_the_package_gives_its_classes_when_they_are_asked_for():
    assert {*modeling.__all__} <= {*dir(modeling)}
    for name in modeling.__all__:
        assert getattr(modeling, name).__name__ == name
    with pytest.raises(AttributeError, match="'modeling' has no .* 'Bert'"):
        modeling.Bert  # noqa: B018


@pytest.mark.all
def test_a_keras_model_takes_strings(original, tmp_path, monkeypatch):
    monkeypatch.chdir(original.parent)
    run_code("takes strings:")
    assert (tmp_path / "text.keras").exists()
    assert (tmp_path / "text_model/saved_model.pb").exists()
