"""The choice of weights: on a model that is a number, and on a real one."""

import functools
import json
import math
import shutil
import types

import numpy as np
import pytest

from modeling import checkpoints
from tests.support.classifier_support import write_records, write_table
from tests.support.run_files import cells_in
from tests.training.finetuning_support import (
    LENGTHS,
    make_options,
    make_run,
    options_of,
    run_table,
)
from training.config.finetuning_options import FinetuningOptions
from training.config.run_options import DeviceOptions, TrainOptions
from training.finetuning import best_checkpoint, metric_values
from training.loop.checkpointing import CheckpointManager
from training.runs import classifier

RECORDS = types.SimpleNamespace()  # of a train set


class Number:
    """Replaces `Finetuning`; its only weight is the step."""

    def __init__(self, folder, save_best="f1", patience=0, num_steps=6):
        self.options = FinetuningOptions(
            bert_config_file="",
            save_best=save_best,
            early_stopping_patience=patience,
            train=TrainOptions(
                output_dir=str(folder),
                num_train_steps=num_steps,
                eval_every_steps=1,
            ),
            device=DeviceOptions(),
        )
        self.manager = CheckpointManager(str(folder))
        self.step = 0

    def train(self, train_files, evaluate, num_examples=None):
        self.step = self.manager.latest_step() or 0
        last = self.options.train.num_train_steps
        while self.step < last:
            self.step += 1
            if self.step == last or evaluate(self.step):
                self.save_weights(self.manager.prefix(self.step))
                break
        return self.step

    def save_weights(self, prefix):
        checkpoints.write(prefix, {"step": np.int64(self.step)})

    def load(self, prefix):
        self.step = int(checkpoints.Checkpoint(prefix).read("step"))

    def restore(self):
        return self.train(None, None)


def best_of(model, evaluate, names):
    best = best_checkpoint.BestCheckpoint(model.options, names)
    best.train = functools.partial(best.train, model, evaluate)
    best._finetuning = model  # a test may only restore
    return best


def choose_among(model, scores, metric="f1"):
    """A selection to which step N has the N-th score; the steps it saw."""
    seen = []

    def evaluate(step):
        assert model.step == step  # of the weights that the model holds
        seen.append(step)
        return {"dev": {metric: scores[step - 1], "loss": 0.0}}

    return best_of(model, evaluate, {"dev": [metric, "loss"]}), seen


def read_record(folder):
    return json.loads((folder / "best_checkpoint.json").read_text())


@pytest.mark.parametrize(
    ("metric", "scores", "best"),
    [
        ("f1", [0.1, 0.5, 0.4, 0.5, 0.2, 0.3], 2),  # a tie: the earlier
        ("f1", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 6),  # the last counts
        ("f1", [math.nan, 0.0, math.nan, 0.0, 0.0, 0.0], 2),
        ("eval_loss", [3.0, 2.0, 1.0, 1.0, 4.0, 5.0], 3),
        ("eval_absolute_error", [3.0, 2.0, 9.0, 1.0, 4.0, 5.0], 4),
    ],
)
def test_the_best_weights_are_kept_and_used(tmp_path, metric, scores, best):
    model = Number(tmp_path, metric)
    choice, seen = choose_among(model, scores, metric)
    assert choice.train(RECORDS) == best == model.step
    assert seen == [1, 2, 3, 4, 5, 6]  # the last step too, and none twice
    assert CheckpointManager(str(tmp_path / "best")).steps() == [best]
    record = read_record(tmp_path)
    assert (record["metric"], record["step"]) == (metric, best)
    assert record["value"] == scores[best - 1]
    assert [entry["step"] for entry in record["history"]] == seen
    assert choice.note() == {"save_best": metric, "best": scores[best - 1]}
    assert choice.weights(best) == str(tmp_path / f"best/model.ckpt-{best}")
    # In a later process, by the same flag.
    later = Number(tmp_path, metric)
    assert choose_among(later, [], metric)[0].restore() == best == later.step


def test_patience_stops_and_a_restart_does_not_go_on(tmp_path, logged):
    scores = [0.5, 0.6, 0.6, 0.1, 0.9, 0.9]
    choice, seen = choose_among(Number(tmp_path, patience=2), scores)
    assert choice.train(RECORDS) == 2
    assert seen == [1, 2, 3, 4]
    assert CheckpointManager(str(tmp_path)).steps() == [4]
    assert "Stopping: no better in 2 evaluations." in logged.text
    again, seen = choose_among(Number(tmp_path, patience=2), scores)
    assert again.train(RECORDS) == 2
    assert seen == []
    assert "was stopped at step 4, after --early_stopping_pati" in logged.text
    assert "To continue, raise --early_stopping_patience" in logged.text
    patient, seen = choose_among(Number(tmp_path, patience=3), scores)
    assert patient.train(RECORDS) == 5
    assert seen == [5, 6]


def test_a_killed_run_chooses_as_an_uninterrupted_one(tmp_path):
    scores = [0.5, 0.6, 0.7, 0.7, 0.1, 0.2]
    whole, _ = choose_among(Number(tmp_path / "whole"), scores)
    whole.train(RECORDS)
    # Killed in evaluation 5; checkpoints every 2 steps, so 3 to 4 were not
    # lost, and one of step 2 makes it evaluate 3 and 4 once more.
    for last_saved in (0, 2):
        folder = tmp_path / str(last_saved)
        first, _ = choose_among(Number(folder), [*scores[:4], None])
        with pytest.raises(TypeError):
            first.train(RECORDS)
        if last_saved:
            model = Number(folder)
            model.step = last_saved
            model.save_weights(model.manager.prefix(last_saved))
        second, seen = choose_among(Number(folder), scores)
        assert second.train(RECORDS) == 3
        assert seen == list(range(last_saved + 1, 7))
        assert read_record(folder) == read_record(tmp_path / "whole")


def go_back(folder, patience, checkpoint_steps):
    """Trains to step 5, then makes step 2 the one to go on from."""
    scores = [0.5, 0.6, 0.9, 0.8, 0.7]
    model = Number(folder, patience=2)
    choose_among(model, scores)[0].train(RECORDS)
    assert read_record(folder)["step"] == 3
    for step in checkpoint_steps:
        model.step = step
        model.save_weights(model.manager.prefix(step))
    checkpoints.tf1.write_state(str(folder), ["model.ckpt-2"])
    return Number(folder, patience=patience)


def test_a_run_that_goes_back_chooses_up_to_there_and_goes_on(tmp_path, caplog):
    model = go_back(tmp_path, 2, (1, 2))
    choice, seen = choose_among(model, [0.5, 0.6, 0.6, 0.1, 0.9, 0.9])
    assert choice.train(RECORDS) == 2 == model.step
    assert seen == [3, 4]  # trained on, and stopped by its own evaluations
    record = read_record(tmp_path)
    assert (record["step"], record["value"]) == (2, 0.6)
    scores = [entry["dev"]["f1"] for entry in record["history"]]
    assert scores == [0.5, 0.6, 0.6, 0.1]
    assert CheckpointManager(str(tmp_path / "best")).steps() == [2]
    assert "from step 2, without the best weights of step 3;" in caplog.text
    assert "now the best are those of step 2." in caplog.text


def test_a_run_that_goes_back_takes_the_best_of_the_checkpoints(tmp_path):
    model = go_back(tmp_path, 0, (1, 2))
    record = read_record(tmp_path)
    record["history"][0]["dev"]["f1"] = 0.65
    (tmp_path / "best_checkpoint.json").write_text(json.dumps(record))
    choice, seen = choose_among(model, [0.0] * 6)
    assert choice.train(RECORDS) == 1 == model.step
    assert seen == [3, 4, 5, 6]


def test_a_run_that_goes_back_to_no_evaluation_chooses_anew(tmp_path, caplog):
    model = go_back(tmp_path, 0, (2,))
    record = read_record(tmp_path)
    del record["history"][1]
    (tmp_path / "best_checkpoint.json").write_text(json.dumps(record))
    choice, _ = choose_among(model, [None, None, 0.1, 0.3, 0.2, 0.2])
    assert choice.train(RECORDS) == 4
    assert [x["step"] for x in read_record(tmp_path)["history"]] == [3, 4, 5, 6]
    assert "best weights of step 3; the choice begins again." in caplog.text


def test_a_run_that_begins_anew_forgets_the_old_choice(tmp_path):
    choose_among(Number(tmp_path), [0.9] * 6)[0].train(RECORDS)
    for path in tmp_path.glob("model.ckpt-*"):
        path.unlink()
    choice, _ = choose_among(Number(tmp_path), [0.1, 0.2, 0.3, 0.2, 0.1, 0.0])
    assert choice.train(RECORDS) == 3
    assert read_record(tmp_path)["value"] == 0.3


def test_training_on_without_save_best_is_said(tmp_path, caplog):
    choose_among(Number(tmp_path), [0.9] * 6)[0].train(RECORDS)
    best_of(Number(tmp_path, save_best=""), lambda _: {}, {}).train(RECORDS)
    assert "without this flag the last weights are used" in caplog.text


def test_without_save_best_the_last_weights_are_used(tmp_path):
    model = Number(tmp_path, save_best="")
    seen = []

    def evaluate(step):
        seen.append(step)
        return {"dev": {"f1": 0.0}}  # must not be used for "stop"

    choice = best_of(model, evaluate, {})
    assert choice.train(RECORDS) == 6
    assert seen == [1, 2, 3, 4, 5]
    assert not (tmp_path / "best").exists()
    assert choice.note() == {}


def test_at_step_0_the_weights_are_those_of_init_checkpoint(tmp_path):
    model = Number(tmp_path, save_best="")
    model.first = types.SimpleNamespace(prefix=lambda _: "/a/b")
    choice = best_of(model, None, {})
    assert choice.weights(0) == "/a/b"
    assert choice.weights(6) == str(tmp_path / "model.ckpt-6")
    model.first = None  # the original's Estimator writes one of step 0
    assert choice.weights(0) == str(tmp_path / "model.ckpt-0")


def test_a_metric_is_found_in_any_set(tmp_path):
    names = {"dev_a": ["f1", "loss"], "dev_b": ["f1"]}
    for given, metric in ("f1",) * 2, ("dev_a/f1", "f1"), ("dev_b/f1",) * 2:
        model = Number(tmp_path, given)
        found = best_checkpoint.BestCheckpoint(model.options, names)
        assert found.metric == metric
    results = {"dev_a": {"f1": 1.0, "loss": 2.0}, "dev_b": {"f1": 3.0}}
    flat = {"f1": 1.0, "loss": 2.0, "dev_b/f1": 3.0}
    assert metric_values.flat(results) == flat


def test_an_unknown_metric_is_refused_with_the_nearest_first(tmp_path):
    with pytest.raises(ValueError, match="^--save_best=los: .* but loss, f1"):
        choose_among(Number(tmp_path, "los"), [])


def test_another_metric_than_the_folder_s_is_refused(tmp_path):
    choose_among(Number(tmp_path), [0.0] * 6)[0].train(RECORDS)
    with pytest.raises(ValueError, match="=loss, but .* chosen by f1; give"):
        choose_among(Number(tmp_path, "loss"), [])


def test_what_was_never_chosen_cannot_be_used(tmp_path):
    missing = "no best weights. Remove best_checkpoint.json, .* --save_best= "
    with pytest.raises(ValueError, match=missing):
        choose_among(Number(tmp_path), [])[0].restore()
    choose_among(Number(tmp_path), [0.9] * 6)[0].train(RECORDS)
    shutil.rmtree(tmp_path / "best")
    longer, seen = choose_among(Number(tmp_path, num_steps=8), [0.1] * 8)
    for use in longer.restore, functools.partial(longer.train, RECORDS):
        with pytest.raises(ValueError, match=missing):
            use()
    assert not seen  # it is refused before it trains
    (tmp_path / "best_checkpoint.json").unlink()
    again, seen = choose_among(Number(tmp_path, num_steps=8), [0.1] * 8)
    assert again.train(RECORDS) == 7
    assert seen == [7, 8]


def test_a_damaged_record_is_refused(tmp_path):
    (tmp_path / "best_checkpoint.json").write_text("{")
    with pytest.raises(ValueError, match="best_checkpoint.json is damaged: "):
        choose_among(Number(tmp_path), [])


def test_the_loop_stops_when_told_to_and_saves_that_step(goldens, tmp_path):
    train_files = write_records(tmp_path, LENGTHS, seq_length=64)
    options = make_options(goldens, tmp_path / "a", eval_every_steps=1)
    assert make_run(options).train(train_files, lambda step: step == 2) == 2
    assert CheckpointManager(str(tmp_path / "a")).steps() == [2]
    point = json.loads((tmp_path / "a/model.ckpt-2.resume.json").read_text())
    assert (point["global_step"], point["examples_seen"]) == (2, 16)


def check_files_of_losses(out, record, losses):
    """metrics.json and checkpoints.tsv of a run with save_best=eval_loss."""
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["global_step"] == record["step"]
    assert metrics["save_best"] == "eval_loss"
    assert metrics["dev"]["eval_loss"] == metrics["best"] == record["value"]
    header, *rows = cells_in(out / "checkpoints.tsv")
    at = header.index("eval_loss")
    assert {int(row[0]): float(row[at]) for row in rows} == pytest.approx(
        losses, rel=1e-5
    )


def same_weights(weights, checkpoint):
    """Whether a file holds the weights of a checkpoint, without Adam's."""
    best = checkpoints.Checkpoint(weights)
    saved = checkpoints.Checkpoint(str(checkpoint))
    for name in best.shapes:
        np.testing.assert_array_equal(best.read(name), saved.read(name))
    assert not any("adam" in name for name in best.shapes)


def test_a_classifier_keeps_its_best_weights(goldens, tmp_path):
    write_table(tmp_path / "data", "single")
    out = tmp_path / "out"
    finetuning = {
        "eval_batch_size": 32,  # more than the dev set has
        "predict_batch_size": 32,
        "save_best": "eval_loss",
        "eval_every_steps": 2,
        "save_checkpoints_steps": 2,
        "learning_rate": 1e-2,
    }
    options = options_of(goldens, tmp_path, finetuning=finetuning)
    outcome = classifier.run(options.replace(eval_checkpoints="all"))
    record = read_record(out)
    losses = {e["step"]: e["dev"]["eval_loss"] for e in record["history"]}
    assert list(losses) == [2, 4, 6]
    assert outcome.step == record["step"] == min(losses, key=losses.get)
    same_weights(outcome.weights, out / f"model.ckpt-{outcome.step}")
    check_files_of_losses(out, record, losses)
    # A later process answers with the same weights.
    answers = (out / "test_results.tsv").read_bytes()
    (out / "test_results.tsv").unlink()
    later = options.replace(do_train=False)
    assert classifier.run(later.replace(do_eval=False)).step == outcome.step
    assert (out / "test_results.tsv").read_bytes() == answers
    lost = later.replace(do_predict=False, eval_checkpoints="5,4,3")
    with pytest.raises(ValueError, match="with a checkpoint are 2, 4, 6; "):
        classifier.run(lost)
    record["dev"][0]["pooling"] = "max"
    (out / "best_checkpoint.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match="or otherwise: pooling max -> mean"):
        classifier.run(options)


@pytest.mark.all
def test_a_classifier_that_goes_back_answers_by_new_weights(goldens, tmp_path):
    write_table(tmp_path / "data", "single")
    often = {"save_best": "eval_loss", "eval_every_steps": 2}
    often |= {"save_checkpoints_steps": 2, "keep_checkpoint_max": 0}
    run_table(goldens, tmp_path, often, do_train=True)
    out = tmp_path / "out"
    record = read_record(out)
    # The last is the best by far, which a run that went back must not keep.
    record |= {"step": 6, "value": -1.0}
    (out / "best_checkpoint.json").write_text(json.dumps(record))
    checkpoints.tf1.write_state(str(out), ["model.ckpt-2"])
    outcome = run_table(goldens, tmp_path, often, do_train=True)
    again = read_record(out)
    assert [entry["step"] for entry in again["history"]] == [2, 4, 6]
    losses = [entry["dev"]["eval_loss"] for entry in again["history"]]
    assert again["value"] == min(losses)
    assert outcome.step == again["step"] == 2 * (1 + losses.index(min(losses)))
    same_weights(outcome.weights, out / f"model.ckpt-{outcome.step}")
