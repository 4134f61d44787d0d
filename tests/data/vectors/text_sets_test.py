import dataclasses
import json

import pytest

from data.tasks.examples import TextExample
from data.vectors.text_sets import PAIR, TextOptions, TextSets


def sets(folder, rows, name="train.tsv", **options):
    (folder / name).write_text("\n".join(rows) + "\n", "utf-8")
    own = {n: options.pop(n) for n in ("scored", "limited") if n in options}
    options = {"text_columns": PAIR, "data_dir": str(folder)} | options
    return TextSets(options=TextOptions(**options), **{"scored": True} | own)


HEADER = "text_a\ttext_b\tscore"


def test_scored_pairs(tmp_path):
    found = sets(tmp_path, [HEADER, "a\tb\t0.5", "c\td\t4"])
    assert list(found.examples("train")) == [
        TextExample(("a", "b"), 0.5),
        TextExample(("c", "d"), 4.0),
    ]


def test_pairs_without_a_score_and_a_hard_negative(tmp_path):
    rows = [json.dumps({"q": "a", "p": "b", "n": "c", "x": 1})]
    options = {"task_name": "jsonl", "text_columns": ("q", "p", "n")}
    found = sets(tmp_path, rows, "train.jsonl", scored=False, **options)
    assert list(found.examples("train")) == [TextExample(("a", "b", "c"))]


def test_lines_of_a_text_file(tmp_path):
    rows = ["A line, whole.", "Another."]
    options = {"text_columns": ("0",), "train_file": "lines.txt"}
    found = sets(tmp_path, rows, "lines.txt", scored=False, **options)
    texts = [example.texts for example in found.examples("train")]
    assert texts == [("A line, whole.",), ("Another.",)]


GLUE = {
    "STS-B": (
        "i\tg\tf\ty\to\ts1\ts2\tsentence1\tsentence2\tscore",
        ["0\tx\tx\tx\t1\tx\tx\ta\tb\t2.5"],
        [TextExample(("a", "b"), 0.5)],
    ),
    "QQP": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        ["0\t1\t2\ta\tb\t1", "1\t3\t4\tc\td\t0"],
        [TextExample(("a", "b"))],
    ),
    "MNLI": (
        "index\tp\tp\tp\tp\tp\tp\tp\tsentence1\tsentence2\tgold_label",
        [
            "\t".join([*"0.......", "a", "b", "neutral"]),
            "\t".join([*"1.......", "c", "d", "entailment"]),
        ],
        [TextExample(("c", "d"))],
    ),
}


@pytest.mark.parametrize("name", GLUE)
def test_glue_by_name(tmp_path, name):
    header, rows, expected = GLUE[name]
    scored = name == "STS-B"
    found = sets(tmp_path, [header, *rows], task_name=name, scored=scored)
    assert list(found.examples("train")) == expected
    with pytest.raises(ValueError, match="--loss="):
        dataclasses.replace(found, scored=not scored)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["text_a\tother\tscore", "a\tb\t1"], "'text_b'.*--text_columns"),
        (["text_a\ttext_b\tx", "a\tb\t1"], "'score'.*--label_column"),
        ([HEADER, "a\tb\thigh"], "line 2: .*'high', expected a number"),
        ([HEADER, " \tb\t1"], "line 2: .*'text_a' is ' ', .*--drop_missing"),
        ([HEADER, "a\tb"], "line 2: 2 columns, expected 3"),
        ([HEADER], "--task_name=tsv: the train .*carriage return"),
    ],
)
def test_bad_tables_are_refused_with_their_line(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        list(sets(tmp_path, rows).examples("train"))


def test_rows_without_a_text_can_be_left_out(tmp_path, caplog):
    rows = [HEADER, "a\t\t1", "a\tb\t1", "c\td\t"]
    found = sets(tmp_path, rows, drop_missing=True)
    assert list(found.examples("train")) == [TextExample(("a", "b"), 1.0)]
    list(found.examples("train"))
    assert caplog.text.count("leaves out 2 rows") == 1


def test_scores_that_are_no_cosines_are_refused_for_a_regression(tmp_path):
    found = sets(tmp_path, [HEADER, "a\tb\t-1", "a\tb\t4.5"], limited=True)
    with pytest.raises(ValueError, match=r"line 3.* 4.5.*--loss=cosine"):
        list(found.examples("train"))
