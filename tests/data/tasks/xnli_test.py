"""XNLI: one language of a file of many."""

import pytest

from data.tasks import InputExample, get_task
from tests.data.tasks.fixtures import FOLDERS, write_files


@pytest.fixture
def folder(tmp_path):
    return write_files(tmp_path, FOLDERS["xnli"])


def test_chinese_is_read_as_the_original_does(folder):
    xnli = get_task("xnli", folder)
    assert list(xnli.examples("train")) == [
        InputExample("train-1", "yi", "er", "contradiction"),
        InputExample("train-2", "yi", "yi", "entailment"),
    ]
    # Numbered over all languages.
    dev = list(xnli.examples("dev"))
    assert dev[0] == InputExample("dev-4", "zh 0", "zwei", "neutral")
    assert len(dev) == 3
    # The original has no test set.
    assert xnli.gold("test").tolist() == [2, 1, 0]


def test_another_language(folder):
    german = get_task("xnli", folder, language="de")
    assert [example.text_a for example in german.examples("test")] == [
        "de 0",
        "de 1",
        "de 2",
    ]
    with pytest.raises(
        FileNotFoundError, match="multinli/multinli.train.de.tsv: no such"
    ):
        list(german.examples("train"))


def test_a_language_that_is_not_there_is_an_error(folder):
    with pytest.raises(
        ValueError,
        match="xnli.dev.tsv: no row has --language=xx; it has de, zh",
    ):
        list(get_task("xnli", folder, language="xx").examples("dev"))
