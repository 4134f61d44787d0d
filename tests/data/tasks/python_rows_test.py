import json

import numpy as np
import pytest

from data.tasks.python_rows import put_back_if_refused, rows_of, write_rows
from tests.support.python_tables import Frame

TEXTS = ["Caf\u00e9 \u4e2d\u6587", "", "a\nb\tc \u2028"]
ROWS = [
    {"text": text, "label": label}
    for text, label in zip(TEXTS, [1, 0, 1], strict=True)
]


@pytest.mark.parametrize(
    "data",
    [
        Frame(stars=[5, 5, 5], text=TEXTS, label=np.array([1, 0, 1])),
        {"text": np.array(TEXTS), "label": [1, 0, 1]},
        [row | {"stars": None} for row in ROWS],
        [(row["text"], np.int64(row["label"])) for row in ROWS],
        tuple([row["text"], row["label"]] for row in ROWS),
    ],
    ids=["frame", "columns", "dicts", "tuples", "lists"],
)
def test_every_form_gives_the_rows(data, tmp_path):
    rows = rows_of(data, ["text", "label"])
    assert rows == ROWS
    path = tmp_path / "rows.jsonl"
    write_rows(str(path), rows)
    lines = path.read_text("utf-8").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == ROWS
    assert lines[-1] == ""


def test_lists_stay_lists():
    data = [(["a", "b"], ("O", "B-x")), (np.array(["c"]), ["O"])]
    assert rows_of(data, ["words", "label"]) == [
        {"words": ["a", "b"], "label": ["O", "B-x"]},
        {"words": ["c"], "label": ["O"]},
    ]


@pytest.mark.parametrize(
    "data", [{"text": ["a"]}, [{"text": "a"}], [("a",)], Frame(text=["a"])]
)
def test_a_column_may_be_left_out_if_told(data):
    rows = rows_of(data, ["text", "label"], may_lack=["label"])
    assert rows == [{"text": "a"}]


@pytest.mark.parametrize("label", [None, float("nan"), [None], ["x", None]])
def test_a_missing_value_of_such_a_column_is_left_out(label):
    data = [("a", label), ("b", "x")]
    assert rows_of(data, ["text", "label"], may_lack=["label"]) == [
        {"text": "a"},
        {"text": "b", "label": "x"},
    ]


TWICE = Frame(text=["a"], label=["x"])
TWICE.columns = np.array(["text", "label", "text"], object)


class Missing:
    """As pandas.NA: comparing it gives what has no truth value."""

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    def __repr__(self):
        return "<NA>"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Frame(review=["a"], label=[1]), r"are review, label\. Name .* text="),
        ({"text": ["a", "b"]}, "^train has no column 'label'; the columns are"),
        (TWICE, "train has a column twice: text, label, text; rename"),
        ({"text": ["a", "b"], "label": [1]}, r"differ in length: \[2, 1\]"),
        ({}, "train has no row"),
        ([], "train has no row; expected one at least"),
        ({"text": [], "label": []}, "train has no row"),
        ("train.tsv", "train is a str, expected a pandas DataFrame"),
        (7, "train is a int, expected a pandas DataFrame"),
        (["ab"], "train, row 0 is 'ab', expected a tuple or dict of text, la"),
        ([("a", 1), ("b", 1, 2)], r"row 1 is \('b', 1, 2\), expected a tuple"),
        ([{"text": "a"}], "row 0: column 'label' is None, .* columns are text"),
        ([("a", 1), ("b",)], "row 1: column 'label' is None, expected a v"),
        ([("a", 1), (None, 1)], "row 1: column 'text' is None, expected a v"),
        ([("a", float("nan"))], "row 0: column 'label' is nan, expected a v"),
        ([("a", Missing())], "column 'label' is <NA>"),
        ([("a", ["x", None])], r"column 'label' is \['x', None\]"),
        ([("a", np.array(["x", np.nan], object))], r"'label' is \['x', nan\]"),
        ([(["a", Missing()], "x")], r"column 'text' is \['a', <NA>\]"),
        (
            [(None, None), ("b", 1), {"text": "c"}],
            r"(?s)^2 rows are wrong.*row 0: column 'text'.*\n.*row 2: column '",
        ),
    ],
)
def test_faults_are_named(data, message):
    with pytest.raises(ValueError, match=message):
        rows_of(data, ["text", "label"], name="train")


def test_values_may_be_missing_where_rows_are_dropped_but_no_column():
    data = {"text": ["a", None], "label": [float("nan"), "x"]}
    rows = rows_of(data, ["text", "label"], drops=True)
    assert rows == [{"text": "a"}, {"label": "x"}]
    with pytest.raises(ValueError, match="no column 'id'.*text, label"):
        rows_of(data, ["text", "label", "id"], drops=True)


def test_whole_numbers_are_integers_and_the_missing_one_is_missing():
    columns = {
        "text": ["a", "b", "c", "d"],
        "label": np.array([1.0, 2.5, np.nan, 3.0]),
        "lists": [[1.0], [0.5, 2.0], (), ["3.0"]],
    }
    rows = rows_of(columns, list(columns), may_lack=["label"])
    assert [repr(row.get("label")) for row in rows] == ["1", "2.5", "None", "3"]
    assert repr([row["lists"] for row in rows]) == (
        "[[1], [0.5, 2], [], ['3.0']]"
    )


def test_what_json_cannot_hold_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    with pytest.raises(ValueError, match="rows.jsonl: .*expected strings"):
        write_rows(str(path), [{"text": b"a"}])
    assert not path.exists()


def test_a_refused_call_leaves_the_tables_as_they_were(tmp_path):
    train, dev = tmp_path / "train.jsonl", tmp_path / "dev.jsonl"
    train.write_text("{}\n")
    with (
        pytest.raises(ValueError),
        put_back_if_refused({str(train), str(dev)}, has_run=False),
    ):
        train.write_text("[]\n")
        dev.write_text("{}\n")
        raise ValueError
    assert train.read_text() == "{}\n"
    assert not dev.exists()


@pytest.mark.parametrize(
    ("error", "before", "has_run", "after"),
    [
        # A first call keeps its tables, and resumes with them.
        (OSError, None, False, "{}\n"),
        (KeyboardInterrupt, "before", False, "{}\n"),
        # A run was trained on others.
        (OSError, None, True, None),
        (KeyboardInterrupt, "before", True, "before\n"),
    ],
)
def test_tables_of_a_run_stay(tmp_path, error, before, has_run, after):
    path = tmp_path / "train.jsonl"
    if before:
        path.write_text(before)
    with pytest.raises(error), put_back_if_refused({str(path)}, has_run):
        path.write_text("{}\n")
        raise error
    assert (path.read_text() if path.exists() else None) == after
