"""Every kind of task from a user's own table to its result files."""

import json
import types

import numpy as np
import pytest

from data import tables
from data.storage import files
from data.tasks import get_task
from tests.data.tasks.fixtures import FOLDERS, write_files
from tests.support.classifier_support import rows_of, write_table
from tests.support.pages_support import Page
from tests.support.run_files import cells_in, write_json_lines
from tests.support.tiers import rare
from tests.training.finetuning_support import options_of
from training.finetuning import prediction_files
from training.finetuning.predictions import ExampleScores
from training.runs import classifier


@pytest.mark.parametrize(
    ("kind", "metric", "columns"),
    [
        rare("pair", "macro_f1", ["id", "prediction", "x", "y"]),
        rare("regression", "pearson", ["id", "prediction", "score"]),
        rare("multilabel", "micro_f1", ["id", "prediction", "mill", "snow"]),
        rare("choice", "accuracy", ["id", "prediction", "0", "1", "2"]),
        ("tagging", "entity_f1", None),
    ],
)
def test_a_table_of_ones_own_is_trained_scored_and_answered(
    goldens, tmp_path, kind, metric, columns
):
    write_table(tmp_path / "data", kind)
    out = tmp_path / "out"
    finetuning = {
        "init_checkpoint": None,
        "eval_batch_size": 3,
        "predict_batch_size": 3,  # the last batch is not full
    }
    explained = 1 if kind in ("pair", "multilabel") else None
    options = options_of(goldens, tmp_path, kind, finetuning)
    classifier.run(options.replace(explain_errors=explained))
    metrics = json.loads((out / "metrics.json").read_text("utf-8"))
    assert metrics["global_step"] == 6
    assert -1 <= metrics["dev"][metric] <= 1
    assert np.isfinite(metrics["dev"]["eval_loss"])
    check_predictions(out, kind, columns)
    check_dev_predictions(out, kind, metrics)


def check_predictions(out, kind, columns):
    """Whether each line's prediction is the one of its probabilities."""
    lines = cells_in(out / "predictions.tsv")
    if kind == "tagging":
        # A line for each word, and a blank one after each sentence.
        given = rows_of(kind, 7)
        words = [word for row in given for word in [*row["words"], ""]]
        assert [line[0] for line in lines] == words
        assert {line[1] for line in lines if line[0]} <= {"O", "B-M"}
        return
    header, *rows = lines
    assert header == columns
    assert len(rows) == 7
    values = np.array([row[2:] for row in rows], float)
    if kind in ("pair", "choice"):
        np.testing.assert_allclose(values.sum(axis=1), 1, atol=1e-4)
        assert [row[1] for row in rows] == [
            columns[2 + i] for i in values.argmax(axis=1)
        ]
    elif kind == "multilabel":
        assert [row[1] for row in rows] == [
            ",".join(np.array(columns[2:])[row > 0.5]) for row in values
        ]
    else:
        assert [row[1] for row in rows] == [row[2] for row in rows]


def check_dev_predictions(out, kind, metrics):
    """Whether the files of errors have what metrics.json says."""
    path = out / "dev_predictions.tsv"
    if kind == "tagging":
        assert not path.exists() and not (out / "errors.html").exists()
        return
    header, *rows = cells_in(path)
    rows = [dict(zip(header, row, strict=True)) for row in rows]
    losses = [float(row["loss"]) for row in rows]
    assert losses == sorted(losses, reverse=True)
    # Cells have six digits.
    mean = metrics["dev"]["eval_loss"]
    assert np.mean(losses) == pytest.approx(mean, rel=1e-5)
    assert sorted(row["id"] for row in rows) == [f"dev-{i}" for i in range(9)]
    for row in rows:
        given = list(rows_of(kind, 9))[int(row["id"].removeprefix("dev-"))]
        texts = [row[c] for c in ("text", "text_a", "text_b") if c in row]
        assert texts == [given[c] for c in given if c.startswith("text")]
        if kind == "choice":
            assert json.loads(row["choices"]) == given["endings"]
        gold = row["gold"] if kind != "regression" else float(row["gold"])
        assert str(gold) == str(given["label"])
    items = Page(out / "errors.html").items
    assert [item["id"] for item in items] == [row["id"] for row in rows]
    if kind in ("pair", "choice"):
        right = [row["gold"] == row["prediction"] for row in rows]
        assert [item["right"] for item in items] == right
        assert metrics["dev"]["accuracy"] == pytest.approx(np.mean(right))
    if kind == "pair":
        found = metrics["details"]["dev"]
        counts = np.zeros((2, 2))
        for row in rows:
            pair = row["gold"], row["prediction"]
            counts[tuple(map(found["labels"].index, pair))] += 1
        np.testing.assert_array_equal(found["confusion_matrix"], counts)


def scores_of(predictions, loss, label_mask=None):
    return ExampleScores(
        predictions=np.array(predictions, np.float32),
        labels=np.zeros([len(loss), 1]),
        label_mask=label_mask,
        loss=np.array(loss, np.float32),
        score=np.ones(len(loss)),
        weight=np.ones(len(loss)),
    )


def write_dev_predictions(task, name, scores, folder):
    scorer = types.SimpleNamespace(
        task=task,
        output_dir=str(folder),
        step=3,
        scores={name: scores},
        calibrated={},
    )
    prediction_files.write_dev_predictions(scorer, name)


def test_numbers_of_any_size_are_written_exactly(tmp_path):
    gold, found = [1234567.0, 16777217.0, 3.25, 1e-7], [1234567.5, 0.1, 5, -1]
    rows = [{"text": "x", "label": number} for number in gold]
    write_json_lines(tmp_path / "dev.jsonl", rows)
    task = get_task("jsonl", str(tmp_path), kind="regression")
    scores = scores_of([[number] for number in found], [4, 3, 2, 1])
    write_dev_predictions(task, "dev", scores, tmp_path)
    prediction_files.write_predictions(task, "dev", scores, str(tmp_path))

    def cells(name, first):
        return [x[first : first + 2] for x in cells_in(tmp_path / name)[1:]]

    texts = ["1234567.5", "0.1", "5", "-1"]
    assert cells("dev_predictions.tsv", 2) == [
        ["1234567", texts[0]],
        ["16777217", texts[1]],
        ["3.25", texts[2]],
        ["0.0000001", texts[3]],
    ]
    assert cells("predictions.tsv", 1) == [[text, text] for text in texts]


@pytest.mark.parametrize("kind", ["single", "choice", "tagging"])
def test_half_of_a_pair_does_not_stop_the_files(tmp_path, kind):
    # JSON can hold it, UTF-8 cannot.
    odd, columns = "a\ud800", {"id_column": "id"}
    row = {"id": odd, "text": odd, "label": odd}
    if kind == "choice":
        row |= {"a": odd, "b": odd, "label": 0}
        columns["choice_columns"] = ["a", "b"]
    if kind == "tagging":
        row = {"words": [odd], "label": [odd]}
        columns = {}
    for name in "train", "dev", "test":
        write_json_lines(tmp_path / f"{name}.jsonl", [row])
    task = get_task("jsonl", str(tmp_path), kind=kind, **columns)
    shape = [1, *[1] * (kind == "tagging"), len(task.labels)]
    scores = scores_of(np.ones(shape), [1], np.ones([1, 1], int))
    write_dev_predictions(task, "dev", scores, tmp_path)
    prediction_files.write_predictions(
        task, "test", scores, str(tmp_path), with_texts=True
    )
    tables = [path.read_text("utf-8") for path in tmp_path.glob("*.tsv")]
    found = "".join(tables)
    assert found.count("a?") == {"single": 9, "choice": 8, "tagging": 2}[kind]
    assert kind == "tagging" or "a?" in (tmp_path / "errors.html").read_text()


def test_a_further_dev_set_has_files_of_its_name(tmp_path):
    write_files(tmp_path, FOLDERS["mnli"])
    task = get_task("mnli", str(tmp_path))
    scores = scores_of([[0.5, 0.3, 0.2]] * 4, [0.5, 2.0, 1.0, 2.0])
    for name in task.dev_sets:
        write_dev_predictions(task, name, scores, tmp_path)
    for suffix in "", "_dev_mismatched":
        header, *lines = cells_in(tmp_path / f"dev_predictions{suffix}.tsv")
        assert header[1:6] == ["text_a", "text_b", "gold", "prediction", "loss"]
        # Of equal losses the first example is first.
        ids = [line[0].rpartition("-")[2] for line in lines]
        first = [
            e.guid for e in task.examples(f"dev{suffix[4:] or '_matched'}")
        ]
        assert ids == [first[i].rpartition("-")[2] for i in (1, 3, 2, 0)]
        assert (tmp_path / f"errors{suffix}.html").exists()


def test_a_table_s_cells_stay_on_their_line(tmp_path):
    path = tmp_path / "x.tsv"
    files.write_text(str(path), tables.tsv([["id\twith\ntwo", 0.5, None], []]))
    assert path.read_text("utf-8") == "id with two\t0.5\t\n\n"


def test_context_that_tables_do_not_have_is_said(goldens, tmp_path, caplog):
    write_table(tmp_path / "data", "tagging")
    context = {"document_context": True}
    options = options_of(goldens, tmp_path, "tagging", **context)
    classifier.Run(options).make_records()
    assert "--document_context has no effect on tables" in caplog.text
