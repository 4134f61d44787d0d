"""bert.finetune: a run of run_classifier.py on tables of Python."""

import functools
import json
import pathlib
import random
import shutil

import numpy as np
import pytest

import bert
from tests.support import fork_server, rounding
from tests.support.model_folder_support import change_description
from tests.support.python_tables import LABELS, QUICK, TEXTS, Frame
from tests.support.run_files import contents_of

SETTINGS = QUICK | {"save_checkpoints_steps": 1, "keep_checkpoint_max": 5}
REVIEWS = SETTINGS | {"text": "review", "label": "stars"}
TABLE = Frame(review=TEXTS, stars=LABELS)
OTHER_TABLE = Frame(review=TEXTS, stars=LABELS[1:] + LABELS[:1])


@pytest.fixture(scope="module")
def call(released):
    """Trains on a DataFrame into a folder; returns the metrics."""
    return functools.partial(
        bert.finetune,
        Frame(id=range(24), review=TEXTS, stars=LABELS),
        pathlib.Path(released),
        dev=Frame(review=TEXTS[:7], stars=LABELS[:7]),
        test=Frame(review=[*TEXTS[:5], "", "to be " * 40]),
        **REVIEWS,
    )


@pytest.fixture(scope="module")
def tuned(call, tmp_path_factory):
    """A finished run on a DataFrame, and what it returned."""
    folder = tmp_path_factory.mktemp("tuned")
    return folder, call(output_dir=folder)


@pytest.mark.all
def test_the_folder_is_that_of_the_program(tuned, released):
    folder, metrics = tuned
    mine = folder.with_name("program")
    fork_server.python(
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
        *(f"--{name}={value}" for name, value in SETTINGS.items()),
    )
    names, its_names = (
        # Events have the time in their names.
        {path.name for path in out.iterdir() if "tfevents" not in path.name}
        for out in (folder, mine)
    )
    assert names - {"data"} == its_names
    for name in (
        *("labels.txt", "eval_results.txt", "task.json", "metrics.json"),
        *("train.tf_record", "eval.tf_record", "predict.tf_record"),
        *("predictions.tsv", "test_results.tsv"),
    ):
        assert (folder / name).read_bytes() == (mine / name).read_bytes(), name
    written = json.loads((folder / "metrics.json").read_text())
    assert metrics and metrics.items() <= written["dev"].items()


def test_the_result_is_loaded_and_predicts_what_was_written(tuned):
    folder, _ = tuned
    model = bert.load(str(folder))
    assert model.kind == "classification"
    assert model.loaded.labels == ["no", "yes"]
    texts = [*TEXTS[:5], "", "to be " * 40]
    written = np.loadtxt(folder / "test_results.tsv", delimiter="\t")
    for answer, row in zip(model.predict(texts), written, strict=True):
        rounding.assert_equal([*answer["probabilities"].values()], row)
        assert answer["label"] == ("no", "yes")[row.argmax()]


def test_a_file_is_read_where_it_is(tmp_path, monkeypatch, begun):
    path = tmp_path / "mine.csv"
    path.write_text('text,label\n"a, b",1\nc,0\n' + "d,1\n" * 6, "utf-8")
    monkeypatch.chdir(tmp_path)
    begun("mine.csv", "out", dev=path)
    for name in "train", "eval":
        manifest = tmp_path / f"out/{name}.tf_record.manifest.json"
        facts = json.loads(manifest.read_text())
        assert facts["report"]["num_examples"] == 8, facts
        assert facts["made_from"]["labels"] == ["0", "1"]
    assert not (tmp_path / "out/data").exists()


def test_the_same_call_resumes_and_trains_no_step_twice(tuned, call, tmp_path):
    whole, metrics = tuned
    out = tmp_path / "out"

    def times():
        files = [*out.glob("model.ckpt-*.index"), out / "train.tf_record"]
        return {path.name: path.stat().st_mtime_ns for path in files}

    shutil.copytree(whole, out)
    # As a run that was stopped after its first step leaves the folder.
    for path in (*out.glob("model.ckpt-[!1]*"), *out.glob("metrics.json")):
        path.unlink()
    (out / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"\n')
    begun = times()
    assert begun.keys() == {"model.ckpt-1.index", "train.tf_record"}
    assert call(output_dir=out) == metrics
    after = times()
    assert len(after) == 4
    assert {name: after[name] for name in begun} == begun
    # A finished run is evaluated, and not trained again. Its seed is its own.
    drawn = random.Random(1).random(), np.random.RandomState(2).rand()
    random.seed(1)
    np.random.seed(2)
    assert call(output_dir=out) == metrics
    assert (random.random(), np.random.rand()) == drawn
    assert times() == after


def test_another_table_is_refused_and_not_kept(tuned, released, tmp_path):
    folder = shutil.copytree(tuned[0], tmp_path / "out")
    before = contents_of(folder / "data")
    with pytest.raises(ValueError, match="other data: .*another --output_dir"):
        bert.finetune(OTHER_TABLE, released, folder, **REVIEWS)
    assert contents_of(folder / "data") == before
    shutil.rmtree(folder / "data")  # the tables of the program are elsewhere
    with pytest.raises(ValueError, match="other data"):
        bert.finetune(OTHER_TABLE, released, folder, **REVIEWS)
    assert not list((folder / "data").glob("*"))


def test_the_kind_of_a_call_is_not_that_of_a_folder(tuned, released, tmp_path):
    """A call without a kind is of the kind `single`, as its help says."""
    folder = shutil.copytree(tuned[0], tmp_path / "out")
    for kind, more in ("regression", {}), ("choice", {"choice_columns": "ab"}):
        columns = change_description(folder, kind=kind)["columns"]
        change_description(folder, columns=columns | {"kind": kind, **more})
        with pytest.raises(ValueError, match=f"of the kind {kind}, .*--kind"):
            bert.finetune(TABLE, released, folder, **REVIEWS)


def test_a_later_call_has_the_earlier_settings(tuned, released, tmp_path, seen):
    out = tmp_path / "out"
    shutil.copytree(tuned[0], out)
    change_description(out, do_lower_case=False, max_seq_length=20)
    # The weights were trained with other ones.
    with pytest.raises(ValueError, match="do_lower_case True -> False"):
        bert.finetune(TABLE, released, out, text="review", label="stars")
    (options,) = seen
    assert options.do_lower_case is False
    assert options.finetuning.max_seq_length == 20


def test_no_dev_set_gives_no_metrics(released, tmp_path, logged):
    table = [("a", "x"), ("b", "y"), ("c", "y")] * 4
    weighted = QUICK | {"class_weights": "balanced"}
    assert bert.finetune(table, released, str(tmp_path), **weighted) == {}
    assert "Weights of the labels in the loss: x 1.5, y 0.75" in logged.text
