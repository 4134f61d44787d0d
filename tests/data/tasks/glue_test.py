"""GLUE and XNLI: the columns read, the original's names of examples."""

import pytest

from data.tasks import InputExample, get_task
from tests.data.tasks.fixtures import FOLDERS, write_files


@pytest.fixture
def task(tmp_path):
    def make(name, **changed):
        folder = tmp_path / name
        return get_task(name, write_files(folder, FOLDERS[name] | changed))

    return make


SECOND = 'a "second 1'  # of the files that `glue` of the fixtures makes


@pytest.mark.parametrize(
    ("name", "set_name", "expected"),
    [
        ("cola", "train", ("train-1", 'It is "1', None, "1")),
        ("cola", "test", ("test-2", "Two.", None, None)),
        ("sst-2", "dev", ("dev-2", "good 1", None, "1")),
        ("sst-2", "test", ("test-2", "bad", None, None)),
        ("mrpc", "dev", ("dev-2", "first 1", "second 1", "1")),
        ("mrpc", "test", ("test-2", "first 1", "second 1", None)),
        ("sts-b", "train", ("train-2", "first 1", SECOND, 4)),
        ("qqp", "train", ("train-2", "first 1", SECOND, "1")),
        ("qqp", "test", ("test-2", "first 1", SECOND, None)),
        ("mnli", "dev", ("dev_matched-1", "first 1", SECOND, "entailment")),
        ("mnli", "test", ("test-1", "first 1", SECOND, None)),
        ("qnli", "dev", ("dev-2", "first 1", SECOND, "entailment")),
    ],
)
def test_the_second_example_of_a_set(task, name, set_name, expected):
    _, example, *_ = task(name).examples(set_name)
    assert example == InputExample(*expected)


def test_columns_are_found_by_number_if_the_header_has_others(task, caplog):
    # As the original, which never looks at the header.
    lines = "q\ti\tj\ta\tb\n1\t7\t8\tone\ttwo\n"
    read = [InputExample("train-1", "one", "two", "1")]
    assert list(task("mrpc", **{"train.tsv": lines}).examples("train")) == read
    # A header that names some of them is warned of.
    lines = lines.replace("q", "Quality")
    assert list(task("mrpc", **{"train.tsv": lines}).examples("train")) == read
    assert "no column '#1 String': column 3, 'a', is read" in caplog.text


RTE = "index\tsentence1\tsentence2\tlabel\n"
STS = "i\tg\tf\ty\to\ts1\ts2\tsentence1\tscore\n"


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("cola", "s\t0\t*\ta\ns\t2\t*\tb\n", "line 2: .* is '2', .* of 0, 1"),
        # Of another task.
        ("cola", "sentence\tlabel\ngood\t1\n", "line 1: .*no column 'sentence"),
        ("rte", f"{RTE}0\ta\tentailment\n", "line 2: 3 columns, expected 4"),
        (
            "sts-b",
            FOLDERS["sts-b"]["dev.tsv"].replace("4.000", "four"),
            "line 3: column 'score' .* is 'four'",
        ),
        # In the place of the missing column is the score.
        ("sts-b", f"{STS}0\tg\tf\ty\to\t\t\tA plane.\t5.0\n", ".*'sentence2'"),
    ],
)
def test_a_wrong_file_is_an_error_with_its_place(task, name, lines, message):
    with pytest.raises(ValueError, match=f"/dev.tsv, {message}"):
        list(task(name, **{"dev.tsv": lines}).examples("dev"))


def test_broken_rows_of_qqp_are_left_out_of_its_training_set_only(task, caplog):
    broken = FOLDERS["qqp"]["train.tsv"] + "cut\toff\n"
    qqp = task("qqp", **{"train.tsv": broken, "dev.tsv": broken})
    assert len(list(qqp.examples("train"))) == 4
    assert "1 rows without 6 columns are left out" in caplog.text
    with pytest.raises(ValueError, match="line 6: 2 columns, expected 6"):
        list(qqp.examples("dev"))


def test_submitted_scores_are_in_their_range(task):
    text = task("sts-b").submission("test", [-0.2, 5.3, 2.34567])
    assert text == "index\tprediction\n0\t0.000\n1\t5.000\n2\t2.346\n"


def test_the_main_metric_is_glue_s_own(task):
    assert task("cola").metrics[0] == "matthews"
    assert task("mrpc").metrics == task("qqp").metrics == ("f1", "accuracy")
    assert task("sts-b").metrics == ("pearson", "spearman")
    assert task("ax").metrics[0] == "matthews"


def test_chinese_is_read_as_the_original_does(task):
    xnli = task("xnli")
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


def test_another_language(task):
    folder = task("xnli").data_dir
    german = get_task("xnli", folder, language="de")
    texts = [example.text_a for example in german.examples("test")]
    assert texts == ["de 0", "de 1", "de 2"]
    fault = "multinli/multinli.train.de.tsv: no such"
    with pytest.raises(FileNotFoundError, match=fault):
        list(german.examples("train"))
    fault = "xnli.dev.tsv: no row has --language=xx; it has de, zh"
    with pytest.raises(ValueError, match=fault):
        list(get_task("xnli", folder, language="xx").examples("dev"))
