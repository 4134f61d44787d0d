"""bert.finetune: a run of run_classifier.py on tables of Python."""

import dataclasses
import json
import pathlib
import shutil
import sys

import numpy as np
import pytest

import bert
from data.tasks import ChoiceExample, InputExample, TaggingExample
from tests.support import fork_server, rounding
from tests.support.model_folders import write_released
from training.runs import classifier

TEXTS = ["the man went", "a dog", "caf\u00e9 \u4e2d", "he bought milk"] * 6
LABELS = ["yes", "no", "no", "yes"] * 6
QUICK = {
    "num_train_epochs": 1,
    "train_batch_size": 8,
    "learning_rate": 1e-3,
    "max_seq_length": 32,
}


class Frame:
    """What is used of a pandas DataFrame."""

    def __init__(self, **columns):
        self._columns = {n: np.array(x, object) for n, x in columns.items()}
        self.columns = list(columns)

    def __getitem__(self, name):
        return self._columns[name]


@pytest.fixture(scope="module")
def released(goldens, tmp_path_factory):
    """A folder as the original released them."""
    return write_released(goldens, tmp_path_factory.mktemp("released"))


@pytest.fixture(scope="module")
def tuned(released, tmp_path_factory):
    """A finished run on a DataFrame, and what it returned."""
    folder = tmp_path_factory.mktemp("tuned")
    metrics = bert.finetune(
        Frame(id=range(24), review=TEXTS, stars=LABELS),
        pathlib.Path(released),
        folder,
        dev=Frame(review=TEXTS[:7], stars=LABELS[:7]),
        test=Frame(review=[*TEXTS[:5], "", "to be " * 40]),
        text="review",
        label="stars",
        **QUICK,
    )
    return folder, metrics


def test_the_folder_is_that_of_the_program(tuned, released, pytestconfig):
    folder, metrics = tuned
    mine = folder.with_name("program")
    done = fork_server.run(
        [
            sys.executable,
            "run_classifier.py",
            "--task_name=tsv",
            f"--data_dir={folder}/data",
            f"--vocab_file={released}/vocab.txt",
            f"--bert_config_file={released}/bert_config.json",
            f"--init_checkpoint={released}/bert_model.ckpt",
            f"--output_dir={mine}",
            "--do_train",
            "--do_eval",
            "--do_predict",
            "--text_columns=review",
            "--label_column=stars",
            *(f"--{name}={value}" for name, value in QUICK.items()),
        ],
        cwd=pytestconfig.rootpath,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    names = {path.name for path in mine.iterdir()}
    # Events have the time in their names.
    names = {n for n in names if "tfevents" not in n}
    ours = {path.name for path in folder.iterdir()} - {"data"}
    assert {n for n in ours if "tfevents" not in n} == names
    for name in "labels.txt", "eval_results.txt", "task.json", "metrics.json":
        assert (folder / name).read_text() == (mine / name).read_text(), name
    for name in "train.tf_record", "eval.tf_record", "predict.tf_record":
        assert (folder / name).read_bytes() == (mine / name).read_bytes(), name
    for name in "predictions.tsv", "test_results.tsv":
        assert (folder / name).read_text() == (mine / name).read_text(), name
    written = json.loads((folder / "metrics.json").read_text())
    assert metrics
    for name, value in metrics.items():
        assert written["dev"][name] == value


def test_the_result_is_loaded_and_predicts_what_was_written(tuned):
    folder, _ = tuned
    model = bert.load(str(folder))
    assert (model.kind, model.loaded.labels) == (
        "classification",
        ["no", "yes"],
    )
    texts = [*TEXTS[:5], "", "to be " * 40]
    written = np.loadtxt(folder / "test_results.tsv", delimiter="\t")
    for answer, row in zip(model.predict(texts), written, strict=True):
        np.testing.assert_allclose(
            list(answer["probabilities"].values()),
            row,
            rtol=0,
            atol=rounding.EQUAL,
        )
        assert answer["label"] == ("no", "yes")[row.argmax()]


@pytest.fixture
def records_only(monkeypatch):
    """A run ends when its records are made; the options of each run."""
    seen = []

    def stop(options, inputs=None):
        opened = classifier.Run(options)
        seen.append(opened.options)
        opened.make_records()
        raise StopIteration

    monkeypatch.setattr(classifier, "run", stop)
    return seen


@pytest.mark.parametrize(
    "table",
    [
        {"text": TEXTS, "label": LABELS},
        list(zip(TEXTS, LABELS, strict=True)),
        [
            {"text": text, "label": label}
            for text, label in zip(TEXTS, LABELS, strict=True)
        ],
    ],
    ids=["columns", "tuples", "dicts"],
)
def test_every_form_of_table_gives_the_same_run(
    tuned, released, table, tmp_path, records_only
):
    with pytest.raises(StopIteration):
        bert.finetune(table, released, str(tmp_path), **QUICK)
    name = "train.tf_record"
    assert (tmp_path / name).read_bytes() == (tuned[0] / name).read_bytes()


def test_a_file_is_read_where_it_is(released, tmp_path, monkeypatch):
    path = tmp_path / "mine.csv"
    path.write_text('text,label\n"a, b",1\nc,0\n' + "d,1\n" * 6, "utf-8")
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    metrics = bert.finetune("mine.csv", released, str(out), dev=path, **QUICK)
    assert set(metrics) >= {"accuracy", "macro_f1"}
    assert not (out / "data").exists()
    assert (out / "labels.txt").read_text() == "0\n1\n"


def test_the_same_call_resumes_and_trains_no_step_twice(
    released, tmp_path, monkeypatch
):
    texts = [f"{text} {number}" for number, text in enumerate(TEXTS)]
    table = {"text": texts, "label": LABELS}
    out = str(tmp_path)
    settings = QUICK | {"save_checkpoints_steps": 1, "dev": 0.25, "seed": 3}
    settings["keep_checkpoint_max"] = 5

    def times():
        names = [*tmp_path.glob("model.ckpt-*.index")]
        return {path.name: path.stat().st_mtime_ns for path in names}

    whole = bert.finetune(table, released, str(tmp_path / "whole"), **settings)
    from training.loop import trainer

    run_steps = trainer.Trainer.run_steps

    def stopped(self, *arguments, **more):
        if times():
            raise KeyboardInterrupt
        return run_steps(self, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(trainer.Trainer, "run_steps", stopped)
        with pytest.raises(KeyboardInterrupt):
            bert.finetune(table, released, out, **settings)
    begun = times()
    assert begun
    assert bert.finetune(table, released, out, **settings) == whole
    after = times()
    assert {name: after[name] for name in begun} == begun
    # A finished run is evaluated, and not trained again.
    assert bert.finetune(table, released, out, **settings) == whole
    assert times() == after


def test_another_table_is_refused_and_the_first_is_kept(tuned, released):
    folder, _ = tuned
    before = {p.name: p.read_bytes() for p in (folder / "data").iterdir()}
    table = Frame(review=TEXTS, stars=LABELS[1:] + LABELS[:1])
    with pytest.raises(ValueError, match="other data: .*another --output_dir"):
        bert.finetune(
            table, released, folder, text="review", label="stars", **QUICK
        )
    assert before == {
        p.name: p.read_bytes() for p in (folder / "data").iterdir()
    }


def test_a_refused_call_leaves_no_tables_in_a_run_of_the_program(
    tuned, released, tmp_path
):
    folder = shutil.copytree(tuned[0], tmp_path / "out")
    shutil.rmtree(folder / "data")  # the program's tables are elsewhere
    table = Frame(review=TEXTS, stars=LABELS[1:] + LABELS[:1])
    with pytest.raises(ValueError, match="other data"):
        bert.finetune(
            table, released, folder, text="review", label="stars", **QUICK
        )
    assert not list((folder / "data").glob("*"))


def test_the_kind_of_a_call_is_never_that_of_its_folder(
    tuned, released, tmp_path
):
    """A call without a kind is of the kind `single`, as its help says."""
    folder = shutil.copytree(tuned[0], tmp_path / "out")
    for kind, more in ("regression", {}), ("choice", {"choice_columns": "ab"}):
        facts = json.loads((folder / "task.json").read_text())
        facts["columns"] |= {"kind": kind, **more}
        (folder / "task.json").write_text(json.dumps(facts | {"kind": kind}))
        with pytest.raises(ValueError, match=f"of the kind {kind}, .*--kind"):
            bert.finetune(
                Frame(review=TEXTS, stars=LABELS),
                released,
                folder,
                text="review",
                label="stars",
                **QUICK,
            )


def test_a_later_call_has_the_settings_that_it_leaves_out(
    tuned, released, tmp_path, records_only
):
    out = tmp_path / "out"
    shutil.copytree(tuned[0], out)
    described = json.loads((out / "task.json").read_text())
    described |= {"do_lower_case": False, "max_seq_length": 20}
    (out / "task.json").write_text(json.dumps(described))
    table = Frame(review=TEXTS, stars=LABELS)
    # The weights were trained with other ones.
    with pytest.raises(ValueError, match="do_lower_case True -> False"):
        bert.finetune(table, released, out, text="review", label="stars")
    (options,) = records_only
    assert options.do_lower_case is False
    assert options.finetuning.max_seq_length == 20


def test_a_share_is_drawn_for_the_dev_set(released, tmp_path, records_only):
    table = [(f"text {i}", str(i % 2)) for i in range(20)]
    out = tmp_path / "out"
    with pytest.raises(StopIteration):
        bert.finetune(table, released, str(out), dev=0.2, **QUICK)
    (options,) = records_only
    task = classifier.Run(options).task
    found = {
        name: [example.text_a for example in task.examples(name)]
        for name in ("train", "dev")
    }
    for texts in found.values():
        places = [int(text.split()[1]) for text in texts]
        assert places == sorted(places)
    assert found["train"] and found["dev"]
    assert sorted(found["train"] + found["dev"]) == sorted(x for x, _ in table)
    assert found["dev"] != [text for text, _ in table[:4]]
    # A later command draws the same rows, as from a file.
    assert [*(out / "data").iterdir()] == [out / "data/train.jsonl"]


def test_a_share_of_a_file_is_drawn(released, tmp_path, records_only):
    path = tmp_path / "mine.csv"
    rows = "".join(f"text {i};{i % 2}\n" for i in range(20))
    path.write_text(f"text;label\n{rows}", "utf-8")
    out = tmp_path / "out"
    with pytest.raises(StopIteration):
        # The tables of an earlier call stay in the folder.
        bert.finetune(TABLE, released, str(out), dev=TABLE, **QUICK)
    records_only.clear()
    with pytest.raises(StopIteration):
        bert.finetune(path, released, str(out), dev=0.2, **QUICK)
    opened = classifier.Run(*records_only)
    _, train, dev, _ = opened.make_records()
    assert (train.count, [x.count for x in dev.values()]) == (16, [4])


@pytest.mark.parametrize(
    ("kind", "row", "example"),
    [
        ("pair", ("a", "b", "x"), InputExample("", "a", "b", "x")),
        ("regression", ("a", 1.5), InputExample("", "a", None, 1.5)),
        (
            "multilabel",
            ("a", ["x", "y"]),
            InputExample("", "a", None, ("x", "y")),
        ),
        (
            "tagging",
            (["a", "b"], ["O", "B-x"]),
            TaggingExample("", ("a", "b"), ("O", "B-x")),
        ),
        (
            "choice",
            ("a", "b", "c", 1),
            ChoiceExample("", ["a", "a"], ("b", "c"), "1"),
        ),
    ],
)
def test_other_kinds(released, tmp_path, records_only, kind, row, example):
    other = {"pair": ("c", "d", "y"), "multilabel": ("b", [])}.get(kind, row)
    columns = {"choice_columns": ["one", "two"]} if kind == "choice" else {}
    with pytest.raises(StopIteration):
        bert.finetune(
            [row, other] * 4,
            released,
            str(tmp_path),
            dev=[row, other],
            kind=kind,
            **QUICK | columns,
        )
    # classifier_test has runs of these kinds from here on.
    (options,) = records_only
    assert (options.do_train, options.do_eval) == (True, True)
    task, train, dev, _ = classifier.Run(options).make_records()
    assert task.kind == {"pair": "classification"}.get(kind, kind)
    assert (train.count, [x.count for x in dev.values()]) == (8, [2])
    first = next(iter(task.examples("dev")))
    assert dataclasses.replace(first, guid="") == example


def test_no_dev_set_gives_no_metrics(released, tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    table = [("a", "x"), ("b", "y"), ("c", "y")] * 4
    weighted = QUICK | {"class_weights": "balanced"}
    assert bert.finetune(table, released, str(tmp_path), **weighted) == {}
    assert "Weights of the labels in the loss: x 1.5, y 0.75" in caplog.text


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize("dev", [None, 0.25])
def test_the_dev_set_of_a_stopped_call_is_not_that_of_the_next(
    released, tmp_path, records_only, has_begun, dev
):
    table = [(f"a {number}", "xy"[number % 2]) for number in range(24)]
    with pytest.raises(StopIteration):
        bert.finetune(table, released, str(tmp_path), dev=table[:5], **QUICK)
    assert (tmp_path / "data/dev.jsonl").exists()
    if has_begun:
        described = {"kind": "classification", "model": {}, "weights": ""}
        (tmp_path / "task.json").write_text(json.dumps(described))
    with pytest.raises(StopIteration):
        bert.finetune(table, released, str(tmp_path), dev=dev, **QUICK)
    # Its rows are trained on now.
    assert {path.name for path in (tmp_path / "data").iterdir()} == {
        "train.jsonl"
    }


TABLE = [("a", "x"), ("b", "y")]


@pytest.mark.parametrize(
    ("train", "changes", "message"),
    [
        (
            Frame(review=["a"], label=["x"]),
            {},
            "column 'text' is None, .* the columns are review, label. Name",
        ),
        (TABLE, {"dev": Frame(text=["a"])}, "dev, row 0: column 'label' is N"),
        ([], {}, "train has no row; expected one at least"),
        (
            TABLE,
            {"learning_rat": 1},
            "no setting 'learning_rat' .* learning_rate",
        ),
        (TABLE, {"output_directory": 1}, "no setting 'output_directory'"),
        (TABLE, {"task_name": "cola"}, "there is no setting 'task_name'"),
        (TABLE, {"learning_rate": 0}, "learning_rate=0.0; it must be above 0"),
        (TABLE, {"dev": 0.1}, "a share of 0.1 for the dev set: 2 training ro"),
        (TABLE, {"dev": 1.5}, "--dev_share=1.5; it must be above 0 and below"),
        (TABLE, {"kind": "singel"}, "kind 'singel', expected one of single"),
        ([(1, "x")], {}, "line 1: column 'text' is 1, expected a text"),
        (TABLE, {"dev": [("a", "z")]}, "column 'label' is 'z', expected one"),
        (TABLE, {"max_seq_length": 1000}, "has 128 positions; pass"),
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
        (
            {"metrics": "f1"},
            "--metrics='f1'; it must be a list, each item a str",
        ),
        ({"labels": "yes,no"}, "--labels='yes,no'; it must be a list"),
        ({"seed": "3"}, "--seed='3'; it must be a whole number, not a val"),
        ({"seed": 3.5}, "--seed=3.5; it must be a whole number"),
        ({"seed": None}, "--seed=None; it must be a whole number"),
        (
            {"learning_rate": "1e-3"},
            "--learning_rate='1e-3'; it must be a number",
        ),
        ({"do_lower_case": 1}, "--do_lower_case=1; it must be True or False"),
        ({"label": 3}, "--label_column=3; it must be a string"),
        ({"text": 3}, "--text_columns=3; it must be a list"),
        ({"class_weights": "even"}, "--class_weights=.*one for each label in "),
        ({"class_weights": {"x": 0}}, "--class_weights=.*numbers above 0"),
        ({"feature_based": "table"}, "--feature_based=table: .*--study=feat"),
        ({"feature_based": "some"}, "--feature_based=.*, weighted_all"),
        ({"export_dir": "x"}, "no setting 'export_dir'.* see its --do_export"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(
    released, tmp_path, changes, message
):
    out = tmp_path / "out"
    with pytest.raises(ValueError, match=message):
        bert.finetune(TABLE, released, str(out), **QUICK | changes)
    assert not out.exists()


def test_numbers_of_numpy_and_of_labels_are_converted(
    released, tmp_path, records_only
):
    table = {"text": TEXTS, "label": np.array([0, 1, 1, 0] * 6)}
    with pytest.raises(StopIteration):
        bert.finetune(
            table,
            released,
            str(tmp_path),
            dev=np.float32(0.25),
            labels=np.array([1, 0]),
            class_weights={np.int64(0): np.float32(2.5)},
            seed=np.int64(3),
            learning_rate=np.arange(1, 3)[1] / np.float32(4),
            do_lower_case=np.bool_(True),
            eval_checkpoints="all",
        )
    (options,) = records_only
    assert options.task_options["labels"] == ["1", "0"]
    assert options.class_weights == {"0": 2.5}
    assert options.eval_checkpoints == "all"
    values = [options.finetuning.train.seed, options.do_lower_case]
    values.append(options.finetuning.train.learning_rate)
    assert values == [3, True, 0.5]
    assert [type(value) for value in values] == [int, bool, float]


def test_integers_with_a_missing_one_stay_integers(
    released, tmp_path, records_only
):
    # What pandas makes of a column [1, 2, None, 2].
    column = np.array([1.0, 2.0, np.nan, 2.0])
    train = {"text": TEXTS[:4], "label": column}
    with pytest.raises(ValueError, match="train, row 2: column 'label' is nan"):
        bert.finetune(train, released, str(tmp_path))
    train = {"text": TEXTS[:2] * 4, "label": np.tile(column[:2], 4)}
    test = {"text": TEXTS[:4], "label": column}
    with pytest.raises(StopIteration):
        bert.finetune(train, released, str(tmp_path), test=test, **QUICK)
    inputs = classifier.Run(*records_only).make_records()
    assert inputs.task.labels == ("1", "2")
    labels = [example.label for example in inputs.task.examples("test")]
    assert labels == [None] * 4  # not read


def test_a_folder_without_a_vocabulary_is_refused(released, tmp_path):
    folder = tmp_path / "bare"
    shutil.copytree(released, folder)
    (folder / "vocab.txt").unlink()
    with pytest.raises(FileNotFoundError, match="bare has no vocab.txt and no"):
        bert.finetune(TABLE, str(folder), str(tmp_path / "out"))
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        bert.finetune(TABLE, str(tmp_path / "none"), str(tmp_path / "out"))
    with pytest.raises(FileNotFoundError, match="no.tsv"):
        bert.finetune("no.tsv", released, str(tmp_path / "out"))
