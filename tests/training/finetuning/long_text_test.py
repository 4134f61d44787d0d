"""A run with --long_text=windows: one example, one answer, everywhere.

Expected answers are computed here: the model's own probabilities of each window
that a loop cuts, pooled by a loop.
"""

import functools
import shutil

import numpy as np
import pytest

import modeling
from data.finetuning.long_text import LongTextOptions
from data.records import tfrecord
from data.text.tokenization import FullTokenizer
from tests.support import rounding
from tests.support.classifier_support import WORDS
from tests.support.run_files import json_lines_in, write_json_lines
from tests.support.serving_support import batch_of
from tests.support.tiers import rare
from tests.training.finetuning_support import (
    on_one_and_two_devices,
    options_of,
    run_table,
)
from training.export.predictor import Predictor
from training.many_runs.made_from import facts_of
from training.runs import classifier

LENGTH, ROOM, STRIDE = 24, 22, 9
SIZES = {"train": 24, "dev": 9, "test": 7}


def write_long_table(folder, kind):
    """Texts of 1 to 80 words; what is right depends on the number."""
    folder.mkdir()
    rng = np.random.default_rng(5)
    for name, count in SIZES.items():
        rows = []
        for i in range(count):
            words = rng.choice(WORDS, rng.integers(1, 81)).tolist()
            label = {
                "single": f"l{i % 2}",
                "regression": i / 2,
                "multilabel": ["", "mill", "mill,snow"][i % 3],
                "tagging": ["B-M" if w == "mill" else "O" for w in words],
            }[kind]
            row = {"text": " ".join(words)}
            if kind == "tagging":
                row = {"words": words}
            rows.append(row if name == "test" else row | {"label": label})
        write_json_lines(folder / f"{name}.jsonl", rows)


def run_windows(goldens, tmp_path, kind, pooling="mean", **changes):
    write_long_table(tmp_path / "data", kind)
    options = options_of(
        goldens,
        tmp_path,
        kind,
        long_text=LongTextOptions(
            mode="windows", stride=STRIDE, pooling=pooling
        ),
        finetuning={
            "max_seq_length": LENGTH,
            "num_train_epochs": 1.0,
            "eval_batch_size": 4,
            "learning_rate": 3e-3,
        },
        **changes,
    )
    return options, classifier.run(options)


@pytest.fixture(scope="module")
def runs(goldens, tmp_path_factory):
    """Kind, pooling -> folder, options and outcome of a finished run."""

    @functools.cache
    def make(kind, pooling):
        folder = tmp_path_factory.mktemp("run")
        return folder, *run_windows(goldens, folder, kind, pooling)

    return make


def texts_of(tmp_path, name):
    return json_lines_in(tmp_path / f"data/{name}.jsonl")


def starts_of(ids):
    """The place of the first wordpiece of each window."""
    starts = [0]
    while starts[-1] + ROOM < len(ids):
        starts.append(starts[-1] + STRIDE)
    return starts


def predict(model, window):
    """Predictions of a window of wordpieces: [L]."""
    return model.predict(batch_of([[2, *window, 3]])).numpy()[0]


def expected(tmp_path, name, pooling):
    """Pooled predictions of the texts of a set: [N, L]."""
    loaded = modeling.load(str(tmp_path / "out"))
    found = []
    for row in texts_of(tmp_path, name):
        ids = loaded.tokenizer.encode(row["text"])
        windows = [ids[start : start + ROOM] for start in starts_of(ids)]
        scores = [predict(loaded.model, window) for window in windows]
        pooled = np.mean(scores, axis=0)
        if pooling == "max":
            pooled = np.max(scores, axis=0)
            if loaded.kind == "classification":
                pooled /= pooled.sum()
        found.append(pooled)
    return np.array(found)


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [
        ("single", "max"),
        rare("single", "mean"),
        rare("regression", "mean"),
        rare("multilabel", "max"),
    ],
)
def test_an_example_has_one_answer(goldens, runs, kind, pooling):
    folder, options, outcome = runs(kind, pooling)
    out = folder / "out"
    wanted = expected(folder, "test", pooling)
    written = np.loadtxt(out / "test_results.tsv", delimiter="\t", ndmin=2)
    assert len(written) == SIZES["test"]
    rounding.assert_equal(written, wanted)
    lines = (out / "predictions.tsv").read_text().splitlines()
    assert len(lines) == 1 + SIZES["test"]
    # The scores of the dev set are of its examples.
    dev = expected(folder, "dev", pooling)
    rows = texts_of(folder, "dev")
    results = outcome.results["dev"]
    if kind == "single":
        gold = np.array([int(row["label"][1]) for row in rows])
        loss = -np.log(dev[np.arange(len(dev)), gold])
        hits = dev.argmax(axis=1) == gold
        assert results["eval_accuracy"] == pytest.approx(hits.mean())
    elif kind == "regression":
        gold = np.array([row["label"] for row in rows])
        loss = (dev[:, 0] - gold) ** 2
    else:
        gold = np.array(
            [[n in row["label"] for n in ("mill", "snow")] for row in rows]
        )
        loss = -np.log(np.where(gold, dev, 1 - dev)).mean(axis=1)
    # A loss has the slope 1 / p at p; 30 is above all of them here.
    assert results["eval_loss"] == pytest.approx(
        loss.mean(), abs=30 * rounding.EQUAL
    )
    # Training counts windows.
    encode = FullTokenizer(str(goldens / "vocab.txt")).encode
    num_windows = sum(
        len(starts_of(encode(row["text"]))) for row in texts_of(folder, "train")
    )
    assert (
        outcome.step == num_windows // options.finetuning.train.train_batch_size
    )
    made = tfrecord.read_records(str(out / "train.tf_record"))
    assert sum(1 for _ in made) == num_windows


@pytest.mark.all
@pytest.mark.parametrize("kind", ["single", "regression"])
def test_the_model_answers_texts_as_the_run_did(runs, tmp_path, kind):
    shutil.copytree(runs(kind, "max")[0], tmp_path, dirs_exist_ok=True)
    out = tmp_path / "out"
    written = np.loadtxt(out / "test_results.tsv", delimiter="\t", ndmin=2)
    texts = [row["text"] for row in texts_of(tmp_path, "test")]
    predictor = Predictor.load(str(out))
    answers = predictor.predict(texts)
    name = "score" if kind == "regression" else "probabilities"
    got = np.array([answer[name] for answer in answers]).reshape(len(texts), -1)
    rounding.assert_equal(got, written)
    # More windows than are computed at once.
    book = " ".join(texts * 4)
    (answer,) = predictor.predict([book])
    write_json_lines(tmp_path / "data/test.jsonl", [{"text": book}])
    (wanted,) = expected(tmp_path, "test", "max")
    rounding.assert_equal(np.ravel(answer[name]), wanted)


@pytest.mark.all
def test_words_are_labelled_once_also_by_the_export(goldens, tmp_path):
    run_windows(goldens, tmp_path, "tagging", do_eval=False)
    out = tmp_path / "out"
    lines = (out / "predictions.tsv").read_text().splitlines()
    rows = texts_of(tmp_path, "test")
    words = [word for row in rows for word in [*row["words"], ""]]
    assert [line.partition("\t")[0] for line in lines] == words
    labels = [line.partition("\t")[2] for line in lines if line]
    answers = Predictor.load(str(out)).predict(
        [" ".join(row["words"]) for row in rows]
    )
    assert [x for answer in answers for x in answer["label"]] == labels


def test_a_trial_depends_on_the_options_of_long_texts(goldens, tmp_path):
    write_long_table(tmp_path / "data", "single")
    options = options_of(goldens, tmp_path)
    inputs = classifier.Run(options).make_records()
    names = facts_of(options, inputs)
    assert not [name for name in names if name.startswith("long_text")]
    # Which flags the command gives is none of the facts.
    assert facts_of(options.replace(given=frozenset(["seed"])), inputs) == names
    windows = options.replace(long_text=LongTextOptions(mode="windows"))
    assert facts_of(windows, inputs)["long_text.mode"] == "windows"


def answers_of(goldens, folder, device):
    write_long_table(folder / "data", "single")
    windows = LongTextOptions(mode="windows", stride=STRIDE)
    works = {"do_predict": True, "long_text": windows}
    run_table(goldens, folder, {"device": device}, **works)
    return np.loadtxt(folder / "out/test_results.tsv").tolist()


@pytest.mark.all
def test_two_devices_give_the_answers_of_one(goldens, tmp_path):
    """Also if the last batch is not full."""
    one, two = on_one_and_two_devices(answers_of, goldens, tmp_path)
    assert len(one) == SIZES["test"]
    rounding.assert_equal(one, two)
