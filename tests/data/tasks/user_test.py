import dataclasses
import json
import re

import pytest

from data.tasks import ChoiceExample, InputExample, TaggingExample, get_task
from tests.data.tasks.fixtures import write_files


@pytest.fixture
def tsv(tmp_path):
    def make(contents, **options):
        return get_task("tsv", write_files(tmp_path, contents), **options)

    return make


def train(task):
    return list(task.examples("train"))


def test_a_text_and_its_label(tsv):
    task = tsv({"train.tsv": 'label\ttext\nyes\t"a\nno\tb\n'})
    assert task.kind == "classification"
    assert task.labels == ("no", "yes")
    assert task.metrics == ("accuracy", "macro_f1")
    assert train(task) == [
        InputExample("train-1", '"a', None, "yes"),
        InputExample("train-2", "b", None, "no"),
    ]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("train.tsv", "\ufeffa\tb\ty\nx, 1\tx2\t1\n"),
        ("train.csv", '\ufeffa,b,y\r\n"x, 1",x2,1\r\n'),
        ("train.jsonl", '\ufeff{"a": "x, 1", "b": "x2", "y": 1}\r\n'),
    ],
)
def test_every_format_gives_the_same_pair(tsv, name, data):
    columns = {"text_columns": ["a", "b"], "label_column": "y"}
    (example,) = train(tsv({name: data}, kind="pair", **columns))
    assert (example.texts, example.label) == (["x, 1", "x2"], "1")


def test_columns_by_number_have_no_header(tsv):
    table = "7\tyes\ta\n"
    columns = {"text_columns": ["-1"], "label_column": "1", "id_column": "0"}
    task = tsv({"train.tsv": table, "dev.tsv": table}, **columns)
    assert train(task) == [InputExample("train-0", "a", None, "yes")]
    assert [*task.examples("dev")] == [InputExample("dev-7", "a", None, "yes")]


def test_quotes_of_a_tsv_on_demand(tsv):
    task = tsv({"train.tsv": 'text\tlabel\n"a ""b"""\tx\n'}, quoted=True)
    assert train(task)[0].text_a == 'a "b"'


def test_numbers(tsv):
    files = {"train.csv": "text,score\na,2.5\nb,-1\n"}
    task = tsv(files, kind="regression", label_column="score")
    assert (task.kind, task.labels) == ("regression", ())
    assert task.gold("train").tolist() == [2.5, -1.0]
    with pytest.raises(ValueError, match="--labels=a,b: .*leave the flag out"):
        tsv({}, kind="regression", labels=["a", "b"])


def test_several_labels_as_text_or_list(tsv):
    files = {
        "train.tsv": "text\tlabel\na\tx; y\nb\t\n",
        "dev.jsonl": '{"text": "a", "label": ["y"]}\n',
    }
    task = tsv(files, kind="multilabel", label_separator=";")
    assert task.labels == ("x", "y")
    assert task.gold("train").tolist() == [[1, 1], [0, 0]]
    assert task.gold("dev").tolist() == [[0, 1]]


def test_choices_in_columns_or_in_a_list(tsv):
    table = {"train.csv": "text,c0,c1,c2,label\na,x,y,z,2\n"}
    task = tsv(table, kind="choice", choice_columns=["c0", "c1", "c2"])
    expected = ChoiceExample("train-1", ["a"] * 3, ("x", "y", "z"), "2")
    assert train(task) == [expected]
    assert task.labels == ("0", "1", "2")
    task = tsv(
        {"t.jsonl": '{"text": "a", "c": ["x", "y", "z"], "label": 2}\n'},
        kind="choice",
        choice_columns=["c"],
        train_file="t.jsonl",
        test_file="t.jsonl",
        id_column="label",
    )
    assert train(task) == [dataclasses.replace(expected, guid="train-0")]
    assert next(task.examples("test")).guid == "test-2"


def test_words_as_text_or_list(tsv):
    files = {
        "train.tsv": "words\tlabel\na b\tO B-X\n",
        "dev.jsonl": '{"words": ["a b", "c"], "label": ["O", "O"]}\n',
        "test.jsonl": '{"words": ["a"]}\n',
    }
    task = tsv(files, kind="tagging")
    (example,) = train(task)
    assert example == TaggingExample("train-1", ("a", "b"), ("O", "B-X"), 1)
    assert next(task.examples("dev")).words == ("a b", "c")
    assert task.gold("test") is None
    assert task.metrics == ("entity_f1", "token_accuracy")


@pytest.mark.parametrize(
    ("words", "labels", "expected"),
    [
        ('["a b", "c"]', '["O", "B-X"]', (("a b", "c"), ("O", "B-X"))),
        ("[ Music ]", '["O", "O", "O"]', (("[", "Music", "]"), ("O",) * 3)),
        ("[1]", "[7]", (("[1]",), ("7",))),
    ],
)
def test_a_cell_may_be_a_json_list(tsv, words, labels, expected):
    quoted = [words.replace('"', '""'), labels.replace('"', '""')]
    files = {
        "train.tsv": f"words\tlabel\n{words}\t{labels}\n",
        "dev.csv": 'words,label\n"{}","{}"\n'.format(*quoted),
    }
    task = tsv(files, kind="tagging")
    for set_name in "train", "dev":
        (example,) = task.examples(set_name)
        assert (example.words, example.labels) == expected


@pytest.mark.parametrize("word", ["\u00a0", "\u3000", "10\u00a0000"])
def test_unusual_spaces_are_parts_of_words(tsv, word):
    lines = f"words\tlabel\na  {word} b\tO B-X O\n"
    (example,) = train(tsv({"train.tsv": lines}, kind="tagging"))
    assert example.words == ("a", word, "b")


def test_labels_and_metrics_may_be_given(tsv):
    # Of a finished model, without its training file.
    files = {"test.tsv": "text\tlabel\na\tyes\nb\t\n"}
    task = tsv(files, labels=["yes", "no"], metrics=["f1"])
    assert (task.labels, task.metrics[0]) == (("yes", "no"), "f1")
    assert len(list(task.examples("test"))) == 2


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("single", {}),
        ("regression", {"labels": []}),
        ("multilabel", {"labels": ["yes", "no"]}),
        ("tagging", {"text_columns": ["text"]}),
        ("choice", {"choice_columns": ["c"]}),
    ],
)
def test_labels_of_a_test_set_are_not_used(tsv, kind, more):
    unknown = ["?", "-1", "", "[1", "maybe", None, -1]
    rows = [{"text": "a", "c": ["b", "c"], "label": x} for x in unknown]
    data = "".join(json.dumps(row) + "\n" for row in rows)
    labels = {"labels": ["0", "1"]} | more
    task = tsv({"test.jsonl": data}, kind=kind, **labels)
    assert len(list(task.examples("test"))) == len(unknown)
    assert task.gold("test") is None


TAGGING = {"kind": "tagging", "text_columns": ["text"]}
CHOICE = {"kind": "choice", "choice_columns": ["text"], "labels": ["0"]}


@pytest.mark.parametrize(
    ("options", "row", "message"),
    [
        ({}, "a\tmaybe", "column 'label' is 'maybe', expected one of no, y"),
        ({"text_columns": ["x"]}, "a\tyes", "no column 'x'; it has text, lab"),
        ({}, "a\t ", "no label in column 'label'; expected one"),
        ({"kind": "multilabel"}, "a\tyes,maybe", "is 'maybe', expected one"),
        ({"kind": "multilabel"}, 'a\t["a,b"]', "','; give --label_separator"),
        ({"kind": "multilabel"}, "a\t0,1,0", "1 for each label; give .* names"),
        (TAGGING, "a b\tyes", "1 labels for 2 words"),
        (TAGGING, "a\t[yes", "'label' is '\\[yes', expected a JSON list of"),
        (TAGGING, "['a']\tyes", r"'text' is .\['a'\]., expected a JSON list"),
        (TAGGING, " \tyes", "no words in column 'text'"),
        (CHOICE, "a\tyes", "column 'label' is 'yes', expected one of 0"),
        (CHOICE, "a\t0", "column 'text' is 'a', expected a JSON list of"),
        (CHOICE, '["a", "b"]\t0', "2 choices, expected 1"),
    ],
)
def test_a_wrong_row_is_an_error_with_its_place(tsv, options, row, message):
    header = "text\tlabel\n"
    files = {"train.tsv": f"{header}a\tyes\nb\tno\n", "dev.tsv": header + row}
    task = get_task("tsv", tsv(files).data_dir, **options)
    with pytest.raises(ValueError, match=f"dev.tsv, line 2: .*{message}"):
        list(task.examples("dev"))


@pytest.mark.parametrize("value", [3, ["a", None], [float("nan")], [["b"]]])
def test_a_wrong_json_value_is_an_error(tsv, value):
    row = {"text": value, "label": "0"}
    task = tsv({"dev.jsonl": json.dumps(row)}, **TAGGING, labels=["0"])
    fault = f"line 1: column 'text' is {value!r}, expected a JSON list of texts"
    with pytest.raises(ValueError, match=re.escape(fault)):
        list(task.examples("dev"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.tsv", "text\tlabel\na\tyes\nb\t\n"),
        ("train.jsonl", '{"label": "null"}\n\n{"text": "b", "label": null}'),
        ("train.jsonl", '{"label": "x"}\n\n{"text": "b", "label": NaN}'),
    ],
)
def test_a_row_without_a_label_is_an_error(tsv, name, text):
    with pytest.raises(ValueError, match="line 3: no label in column 'label'"):
        tsv({name: text}).labels  # noqa: B018


@pytest.mark.parametrize("label", ["a\nb", "a\r", "\u2028", "a\x85b", ""])
def test_a_label_that_is_no_line_is_refused_with_its_place(tsv, label):
    rows = [{"text": "a", "label": ["x"]}, {"text": "b", "label": [label]}]
    data = "".join(json.dumps(row) + "\n" for row in rows)
    task = tsv({"train.jsonl": data}, kind="multilabel")
    fault = "is empty or has a line break; rename it"
    place = "train.jsonl, line 2: the label '.*' "
    with pytest.raises(ValueError, match=place + fault):
        task.labels  # noqa: B018
    for name in "tsv", "conll":
        with pytest.raises(ValueError, match=f"--labels: the label .* {fault}"):
            get_task(name, task.data_dir, labels=["x", label])
        with pytest.raises(ValueError, match="--labels=x,y,x has .* twice; om"):
            get_task(name, task.data_dir, labels=["x", "y", "x"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "singel"}, "kind 'singel', expected one of single, pair"),
        ({"text_columns": ["a", "b"]}, "2 text .* expected 1 .* for single"),
        ({"kind": "pair", "text_columns": ["a"]}, "1 text .* expected 2 and"),
        ({"kind": "choice"}, "0 choice columns, expected 1 and one or more"),
        ({"choice_columns": ["a"]}, "1 choice columns, expected 1 and none"),
    ],
)
def test_columns_that_do_not_fit_the_kind_are_an_error(tsv, options, message):
    with pytest.raises(ValueError, match=f"--task_name=tsv: .*{message}"):
        tsv({}, **options)
