"""GLUE's files: the columns read, the original's names of examples."""

import pytest

from data.tasks import InputExample, get_task
from tests.data.tasks.fixtures import FOLDERS, write_files


@pytest.fixture
def task(tmp_path):
    def make(name, **changed):
        folder = tmp_path / name
        return get_task(name, write_files(folder, FOLDERS[name] | changed))

    return make


@pytest.mark.parametrize(
    ("name", "set_name", "expected"),
    [
        ("cola", "train", InputExample("train-1", 'It is "1', None, "1")),
        ("cola", "test", InputExample("test-2", "Two.", None, None)),
        ("sst-2", "dev", InputExample("dev-2", "good 1", None, "1")),
        ("sst-2", "test", InputExample("test-2", "bad", None, None)),
        ("mrpc", "dev", InputExample("dev-2", "first 1", "second 1", "1")),
        ("mrpc", "test", InputExample("test-2", "first 1", "second 1", None)),
        (
            "sts-b",
            "train",
            InputExample("train-2", "first 1", 'a "second 1', 4),
        ),
        (
            "qqp",
            "train",
            InputExample("train-2", "first 1", 'a "second 1', "1"),
        ),
        ("qqp", "test", InputExample("test-2", "first 1", 'a "second 1', None)),
        (
            "mnli",
            "dev",
            InputExample(
                "dev_matched-1", "first 1", 'a "second 1', "entailment"
            ),
        ),
        (
            "mnli",
            "test",
            InputExample("test-1", "first 1", 'a "second 1', None),
        ),
        (
            "mnli",
            "test_mismatched",
            InputExample("test_mismatched-1", "first 1", 'a "second 1', None),
        ),
        (
            "qnli",
            "dev",
            InputExample("dev-2", "first 1", 'a "second 1', "entailment"),
        ),
    ],
)
def test_the_second_example_of_a_set(task, name, set_name, expected):
    assert list(task(name).examples(set_name))[1] == expected


def test_columns_are_found_by_number_where_the_header_names_others(task):
    # As the original, which never looks at the header.
    lines = "q\ti\tj\ta\tb\n1\t7\t8\tone\ttwo\n"
    mrpc = task("mrpc", **{"train.tsv": lines})
    assert list(mrpc.examples("train")) == [
        InputExample("train-1", "one", "two", "1")
    ]


def test_a_missing_column_is_not_read_from_the_place_of_the_label(task):
    columns = "i\tg\tf\ty\to\ts1\ts2\tsentence1\tscore\n"
    row = "0\tg\tf\ty\to\t\t\tA plane.\t5.0\n"
    similarity = task("sts-b", **{"train.tsv": columns + row})
    with pytest.raises(ValueError, match="no column 'sentence2'.* it has"):
        list(similarity.examples("train"))


def test_a_number_in_place_of_a_missing_name_is_warned_of(task, caplog):
    mrpc = task("mrpc", **{"train.tsv": "Quality\ti\tj\ta\tb\n1\t7\t8\tx\ty\n"})
    assert list(mrpc.examples("train")) == [
        InputExample("train-1", "x", "y", "1")
    ]
    assert "no column '#1 String': column 3, 'a', is read" in caplog.text


def test_a_label_outside_the_list_is_an_error_with_its_place(task):
    cola = task("cola", **{"dev.tsv": "s\t0\t*\tOne.\ns\t2\t*\tTwo.\n"})
    message = "/dev.tsv, line 2: column 'label' .or 1. is '2', .* one of 0, 1"
    with pytest.raises(ValueError, match=message):
        list(cola.examples("dev"))


def test_a_file_of_another_task_is_an_error(task):
    cola = task("cola", **{"dev.tsv": "sentence\tlabel\ngood\t1\n"})
    with pytest.raises(
        ValueError, match="dev.tsv, line 1: there is no column 'sen"
    ):
        list(cola.examples("dev"))


def test_a_wrong_number_of_columns_is_an_error_with_its_place(task):
    rte = task(
        "rte",
        **{"dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\ta\tentailment\n"},
    )
    with pytest.raises(ValueError, match="dev.tsv, line 2: 3 columns, expect"):
        list(rte.examples("dev"))


def test_broken_rows_of_qqp_are_left_out_of_its_training_set_only(task, caplog):
    broken = FOLDERS["qqp"]["train.tsv"] + "cut\toff\n"
    qqp = task("qqp", **{"train.tsv": broken, "dev.tsv": broken})
    assert len(list(qqp.examples("train"))) == 4
    assert "1 rows without 6 columns are left out" in caplog.text
    with pytest.raises(ValueError, match="line 6: 2 columns, expected 6"):
        list(qqp.examples("dev"))


def test_a_score_that_is_no_number_is_an_error(task):
    changed = FOLDERS["sts-b"]["dev.tsv"].replace("4.000", "four")
    with pytest.raises(ValueError, match="line 3: column 'score' .* is 'four'"):
        list(task("sts-b", **{"dev.tsv": changed}).examples("dev"))


def test_submitted_scores_are_in_their_range(task):
    text = task("sts-b").submission("test", [-0.2, 5.3, 2.34567])
    assert text == "index\tprediction\n0\t0.000\n1\t5.000\n2\t2.346\n"


def test_the_main_metric_is_glue_s_own(task):
    assert task("cola").metrics[0] == "matthews"
    assert task("mrpc").metrics == task("qqp").metrics == ("f1", "accuracy")
    assert task("sts-b").metrics == ("pearson", "spearman")
    assert task("ax").metrics[0] == "matthews"
