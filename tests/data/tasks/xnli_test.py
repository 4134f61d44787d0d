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
    # As of every test set, the labels are not read.
    assert xnli.gold("test") is None


def test_another_language(folder):
    german = get_task("xnli", folder, language="de")
    texts = [example.text_a for example in german.examples("test")]
    assert texts == ["de 0", "de 1", "de 2"]
    fault = "multinli/multinli.train.de.tsv: no such"
    with pytest.raises(FileNotFoundError, match=fault):
        list(german.examples("train"))
    fault = "xnli.dev.tsv: no row has --language=xx; it has de, zh"
    with pytest.raises(ValueError, match=fault):
        list(get_task("xnli", folder, language="xx").examples("dev"))
