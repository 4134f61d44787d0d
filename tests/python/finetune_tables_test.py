"""bert.finetune: what becomes of tables and settings, and which are refused."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

import bert
from data.tasks import ChoiceExample, InputExample, TaggingExample
from tests.support.python_tables import QUICK, TEXTS, Frame
from training.many_runs import table_run
from training.runs import classifier

TABLE = [("a", "x"), ("b", "y")]


def test_a_share_of_a_file_is_drawn(tmp_path, begun):
    path = tmp_path / "mine.csv"
    rows = "".join(f"text {i};{i % 2}\n" for i in range(20))
    path.write_text(f"text;label\n{rows}", "utf-8")
    # The tables of an earlier call stay in the folder.
    begun(TABLE, tmp_path / "out", dev=TABLE)
    options = begun(path, tmp_path / "out", dev=0.2)
    _, train, dev, _ = classifier.Run(options).make_records()
    assert (train.count, [x.count for x in dev.values()]) == (16, [4])


@pytest.mark.parametrize(
    ("kind", "rows", "example"),
    [
        ("pair", [tuple("abx"), tuple("cdy")], InputExample("", "a", "b", "x")),
        (
            "tagging",
            [(["a", "b"], ["O", "B-x"])] * 2,
            TaggingExample("", ("a", "b"), ("O", "B-x")),
        ),
        (
            "choice",
            [(*"abc", 1)] * 2,
            ChoiceExample("", ["a"] * 2, ("b", "c"), "1"),
        ),
    ],
)
def test_other_kinds(tmp_path, begun, kind, rows, example):
    columns = {"choice_columns": ["one", "two"]} if kind == "choice" else {}
    options = begun(rows * 4, tmp_path, dev=rows, kind=kind, **columns)
    # classifier_test has runs of these kinds from here on.
    assert (options.do_train, options.do_eval) == (True, True)
    task, train, dev, _ = classifier.Run(options).make_records()
    assert task.kind == {"pair": "classification"}.get(kind, kind)
    assert (train.count, [x.count for x in dev.values()]) == (8, [2])
    first = next(iter(task.examples("dev")))
    assert dataclasses.replace(first, guid="") == example


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize("dev", [None, 0.25])
def test_a_stopped_call_leaves_no_dev_set(tmp_path, begun, has_begun, dev):
    table = [(f"a {number}", "xy"[number % 2]) for number in range(24)]
    begun(table, tmp_path, dev=table[:5])
    assert (tmp_path / "data/dev.jsonl").exists()
    if has_begun:
        described = {"kind": "classification", "model": {}, "weights": ""}
        (tmp_path / "task.json").write_text(json.dumps(described))
    begun(table, tmp_path, dev=dev)
    # Its rows are trained on now.
    assert [x.name for x in (tmp_path / "data").iterdir()] == ["train.jsonl"]


def test_the_tables_of_finished_trials_stay(tmp_path):
    (tmp_path / "trial-1").mkdir()
    (tmp_path / "test.jsonl").touch()
    stale = [str(tmp_path / "test.jsonl")]
    given = {"train", "dev"}
    assert table_run._stale(str(tmp_path), str(tmp_path), given) == stale
    (tmp_path / "trials.json").write_text('{"chosen": "trial-1"}')
    (tmp_path / "trial-1/model.ckpt-3.index").touch()
    assert not table_run._stale(str(tmp_path), str(tmp_path), given)


@pytest.mark.parametrize(
    ("train", "changes", "message"),
    [
        (Frame(review=[], label=[]), {}, "no column 'text'; .* review, label."),
        (TABLE, {"dev": Frame(text=["a"])}, "dev has no column 'label'"),
        (TABLE, {"learning_rat": 1}, "'learning_rat' .*learning_rate"),
        (TABLE, {"task_name": "cola"}, "there is no setting 'task_name'"),
        (TABLE, {"dev": 0.1}, "a share of 0.1 for the dev set: 2 training ro"),
        (TABLE, {"kind": "singel"}, "kind 'singel', expected one of single"),
        (TABLE, {"dev": [("a", "z")]}, "column 'label' is 'z', expected one"),
        (TABLE, {"max_seq_length": 1000}, "has 128 positions; give"),
    ],
)
def test_bad_input_is_refused(released, tmp_path, train, changes, message):
    out = tmp_path / "out"
    with pytest.raises(ValueError, match=message):
        bert.finetune(train, released, str(out), **QUICK | changes)
    assert not list(out.glob("model.ckpt*"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": "yes,no"}, "--labels='yes,no'; it must be a list"),
        ({"seed": 3.5}, "--seed=3.5; it must be a whole number"),
        ({"do_lower_case": 1}, "--do_lower_case=1; it must be True or False"),
        ({"label": 3}, "--label_column=3; it must be a string"),
        ({"text": 3}, "--text_columns=3; it must be a list"),
        ({"class_weights": "even"}, "--class_weights=.*one for each label in "),
        ({"feature_based": "table"}, "--feature_based=table: .*--study=feat"),
        ({"calibrate": True}, "calibrate needs dev: a table, or a share"),
        ({"num_trials": 2}, "trials needs dev: a table, or a share of train"),
        ({"kind": "choice"}, "0 choice columns, expected 1 and one or more"),
        ({"on_step": "x"}, "on_step is 'x', expected a function of the step"),
        ({"export_dir": "x"}, "no setting 'export_dir'.* see its --do_export"),
    ],
)
def test_wrong_settings_write_nothing(released, tmp_path, changes, message):
    out = tmp_path / "out"
    with pytest.raises(ValueError, match=message):
        bert.finetune(TABLE, released, str(out), **QUICK | changes)
    assert not out.exists()


def test_numbers_of_numpy_and_of_labels_are_converted(tmp_path, begun):
    options = begun(
        {"text": TEXTS, "label": np.array([0, 1, 1, 0] * 6)},
        tmp_path,
        dev=np.float32(0.25),
        labels=np.array([1, 0]),
        class_weights={np.int64(0): np.float32(2.5)},
        seed=np.int64(3),
        learning_rate=np.arange(1, 3)[1] / np.float32(4),
        do_lower_case=np.bool_(True),
        eval_checkpoints="all",
    )
    assert options.task_options["labels"] == ["1", "0"]
    assert options.task_options["dev_share"] == 0.25
    assert options.class_weights == {"0": 2.5}
    assert options.eval_checkpoints == "all"
    values = [options.finetuning.train.seed, options.do_lower_case]
    values.append(options.finetuning.train.learning_rate)
    assert values == [3, True, 0.5]
    assert [type(value) for value in values] == [int, bool, float]


def test_integers_with_a_missing_one_stay_integers(tmp_path, begun):
    # What pandas makes of a column [1, 2, None, 2].
    table = {"text": TEXTS[:4], "label": np.array([1.0, 2.0, np.nan, 2.0])}
    options = begun(table, tmp_path, test=table, drop_missing=True)
    inputs = classifier.Run(options).make_records()
    assert (inputs.task.labels, inputs.train.count) == (("1", "2"), 3)
    labels = [example.label for example in inputs.task.examples("test")]
    assert labels == [None] * 4  # not read


def test_a_folder_without_a_vocabulary_is_refused(released, tmp_path):
    folder = shutil.copytree(released, tmp_path / "bare")
    (folder / "vocab.txt").unlink()
    with pytest.raises(FileNotFoundError, match="bare has no vocab.txt and no"):
        bert.finetune(TABLE, str(folder), str(tmp_path / "out"))
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        bert.finetune(TABLE, str(tmp_path / "none"), str(tmp_path / "out"))
    with pytest.raises(FileNotFoundError, match="no.tsv"):
        bert.finetune("no.tsv", released, str(tmp_path / "out"))
