"""modeling/README.md says what is true."""

import re
import shutil

import numpy as np
import pytest

import modeling
from modeling import BertConfig, BertModel
from tests import huggingface_support as theirs


@pytest.fixture
def tour(pytestconfig):
    return (pytestconfig.rootpath / "modeling/README.md").read_text("utf-8")


def run_code(tour, section, **changes):
    (code,) = re.findall(f"## {section}\n\n```python\n(.*?)```", tour, re.S)
    for old, new in changes.items():
        assert old in code
        code = code.replace(old, new)
    names = {}
    exec(code, names)
    return names


def test_the_five_lines_load_the_originals_weights(
    tour, goldens, tmp_path, monkeypatch, capsys
):
    shutil.copytree(goldens / "model/init", tmp_path / "uncased")
    shutil.copy(goldens / "bert_config.json", tmp_path / "uncased")
    monkeypatch.chdir(tmp_path)
    output = run_code(tour, "Weights in five lines")["output"]
    assert output.get_sequence_output().shape == (1, 3, 32)
    assert "55 variables loaded, 0 missing, 7 unused" in capsys.readouterr().out


def test_they_load_hugging_faces_weights_too(
    tour, tmp_path, monkeypatch, capsys
):
    theirs.write_folder(tmp_path / "uncased", theirs.tensors_of())
    monkeypatch.chdir(tmp_path)
    names = run_code(tour, "Weights in five lines", bert_config="config")
    output = names["output"]
    assert output.get_pooled_output().shape == (1, theirs.H)
    assert "39 variables loaded, 0 missing, 0 unused" in capsys.readouterr().out


def test_a_keras_model_trains_and_is_saved(tour, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_code(tour, "In a Keras model")
    np.testing.assert_array_equal(
        names["scores"], names["model"].predict(names["batch"], verbose=0)
    )


def test_the_example_of_a_name_is_one():
    model = BertModel(BertConfig(vocab_size=7, num_hidden_layers=1))
    names = {variable.path for variable in model.trainable_variables}
    assert "bert/encoder/layer_0/attention/self/query/kernel" in names


def test_the_package_gives_its_classes_when_they_are_asked_for():
    assert {*modeling.__all__} <= {*dir(modeling)}
    for name in modeling.__all__:
        assert getattr(modeling, name).__name__ == name
    with pytest.raises(AttributeError, match="'modeling' has no .* 'Bert'"):
        modeling.Bert  # noqa: B018
