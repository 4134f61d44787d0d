"""Every example of docs/python.md runs, one after the other."""

import shutil

import pytest

from tests.support.docs_support import ROOT, blocks
from tests.support.model_folders import write_questions, write_released

CONFIG = "bert_config.json"


@pytest.mark.all  # it trains several models
def test_the_examples_of_the_page(goldens, tmp_path, monkeypatch, capsys):
    # The folders that the page names, with the golden models.
    folder = tmp_path / "models/uncased_L-12_H-768_A-12"
    write_released(goldens, folder, CONFIG)
    write_questions(goldens, tmp_path / "models/squad_base")
    monkeypatch.chdir(tmp_path)
    examples = blocks(ROOT / "docs/python.md", "python")
    assert len(examples) == 9
    names = {}
    for example in examples:
        if "bert.finetune" in example:  # a model of one layer, to save time
            shutil.copy(goldens / "first_layer.json", folder / CONFIG)
        exec(compile(example, "docs/python.md", "exec"), names)
    # The golden model has 32 units, 4 heads and 3 layers.
    assert names["vectors"].shape == (2, 32)
    assert names["pairs"].shape == (1, 32)
    assert names["mixed"].shape == (1, 2 * 32)
    assert names["of_words"].shape == (len(names["words"]), 32)
    size = len(names["wordpieces"])
    assert names["maps"].shape == (4, size, size)
    assert 0 <= names["metrics"]["accuracy"] <= 1
    assert names["answer"]["answer"] in names["text"]
    assert "[CLS]" in capsys.readouterr().out
