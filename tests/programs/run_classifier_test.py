"""run_classifier.py as its users start it; figures from the original."""

import json

import numpy as np
import pytest

from tests.support import rounding
from tests.support.fork_server import run_golden
from tests.support.run_files import cells_in, results_in
from tests.support.tiers import rare

# MRPC is scored in untrimmed batches; program_export_test has trimmed ones.
TASKS = [*map(rare, ("CoLA", "MRPC")), "MNLI"]


def run(goldens, task, output_dir, *flags, code=0):
    """Starts the program on a task of the goldens."""
    data = f"--task_name={task}", f"--data_dir={goldens}/classifier/{task}"
    flags = *data, "--max_seq_length=64", *flags
    program = "run_classifier.py"
    return run_golden(goldens, program, output_dir, *flags, code=code)


@pytest.fixture(scope="module", params=TASKS)
def scored(request, goldens, tmp_path_factory):
    """The original's fine-tuned model, evaluated and asked by us."""
    task = request.param
    expected = goldens / "classifier" / task / "expected"
    folder = tmp_path_factory.mktemp(task)
    run(
        goldens,
        task,
        folder,
        "--do_eval",
        "--do_predict",
        f"--init_checkpoint={expected}/model.ckpt-16",
        f"--trim_batches={task != 'MRPC'}",
    )
    return task, expected, folder


def test_evaluation_is_the_originals(scored):
    _, expected, folder = scored
    theirs, ours = results_in(expected), results_in(folder)
    assert list(ours) == list(theirs)
    for name in "eval_accuracy", "eval_loss", "loss":
        assert ours[name] == pytest.approx(theirs[name], abs=rounding.EQUAL)


def test_predictions_are_the_originals(scored):
    _, expected, folder = scored
    theirs = np.loadtxt(expected / "test_results.tsv", delimiter="\t")
    ours = np.loadtxt(folder / "test_results.tsv", delimiter="\t")
    rounding.assert_equal(ours, theirs)


def test_predictions_have_ids_and_labels(scored):
    task, _, folder = scored
    labels = (folder / "labels.txt").read_text("utf-8").splitlines()
    header, *rows = cells_in(folder / "predictions.tsv")
    assert header == ["id", "prediction", *labels]
    probabilities = np.loadtxt(folder / "test_results.tsv", delimiter="\t")
    assert len(rows) == len(probabilities)
    for (guid, label, *shown), row in zip(rows, probabilities, strict=True):
        assert guid.startswith("test-")
        assert label == labels[int(np.argmax(row))]
        rounding.assert_equal(np.array(shown, float), row)
    name = {"MNLI": "MNLI-m.tsv"}.get(task, f"{task}.tsv")
    header, *submission = cells_in(folder / name)
    assert header == ["index", "prediction"]
    assert [x[1] for x in submission] == [row[1] for row in rows]


def test_metrics_are_the_tasks_own(scored):
    task, _, folder = scored
    metrics = json.loads((folder / "metrics.json").read_text("utf-8"))
    (name,) = metrics["details"]
    dev = metrics[name]
    assert dev["accuracy"] == pytest.approx(dev["eval_accuracy"])
    own = {"CoLA": "matthews", "MRPC": "f1", "MNLI": "accuracy"}[task]
    assert -1 <= dev[own] <= 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "At least one of `do_train`, `do_eval` or `do_predict'"),
        (["--do_eval", "--language=de"], "--task_name=CoLA has no option --la"),
        (["--do_train", "--data_dir="], "--task_name=CoLA: give --data"),
        (
            ["--do_train", "--feature_based=table"],
            "--feature_based=table: run_",
        ),
    ],
)
def test_bad_flags_end_in_one_line(goldens, tmp_path, flags, message):
    done = run(goldens, "CoLA", tmp_path, *flags, code=1)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"error: {message}"), last
