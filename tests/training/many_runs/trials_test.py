"""Runs of trials: with a formula for a training, and a real one."""

import dataclasses
import json
import os
import pathlib

import pytest

from tests.support.classifier_support import write_table
from tests.support.run_files import cells_in
from tests.support.tiers import rare
from training.config.finetuning_options import TrialOptions
from training.loop.checkpointing import CheckpointManager
from training.many_runs import trials
from training.runs import classifier
from training.runs.classifier import Outcome

run = trials.run
ONE, TWO = TrialOptions(), TrialOptions(num_trials=2)
RATES = TWO.replace(learning_rates=(0.1, 9.0, 0.3))


@pytest.fixture
def trained(monkeypatch):
    """In place of a training: what it scores, by rate and seed; the calls."""
    calls = []

    def train_once(options, inputs):
        train = options.finetuning.train
        calls.append((train.learning_rate, train.seed, options.do_train))
        manager = CheckpointManager(train.output_dir)
        if options.do_train:
            if train.learning_rate == 9.0:
                raise FloatingPointError("step 1: loss became nan")
            for step in (1, 2):
                for ending in (".index", ".data-00000-of-00001"):
                    pathlib.Path(manager.prefix(step) + ending).touch()
        score = train.learning_rate + (train.seed % 10) / 100
        folder = pathlib.Path(train.output_dir)
        for name in ("eval_results.txt", "metrics.json"):
            (folder / name).write_text(f"{score}")
        if options.do_predict:
            assert inputs.test
            answers = f"by {train.learning_rate} {train.seed}"
            (folder / "predictions.tsv").write_text(answers)
        results = {"dev": {"accuracy": score, "macro_f1": score}}
        return Outcome(2, results, manager.prefix(2))

    monkeypatch.setattr(classifier, "run", train_once)
    return calls


@pytest.mark.parametrize("name", ["run*", rare("run?"), "a, b"])
def test_a_folder_of_trials_may_have_any_name(options, tmp_path, trained, name):
    for folder in (tmp_path / name, tmp_path / "run1"):
        (folder / "out").mkdir(parents=True)
    beside = tmp_path / "run1/out/predictions.tsv"
    beside.write_text("of another run")
    write_table(tmp_path / name / "data", "single")
    out = tmp_path / name / "out"
    options = options.replace(
        data_dir=str(tmp_path / name / "data"),
        output_dir=str(out),
        do_predict=True,
    )
    for rates in ((0.1,), (0.1, 0.3)):
        run(options, TWO.replace(learning_rates=rates))
        assert (out / "predictions.tsv").read_text() == f"by {rates[-1]} 12346"
    options = options.replace(do_predict=False)
    (out / "test_results.tsv").write_text("of an earlier choice")
    run(options, TWO.replace(learning_rates=(0.1,)))
    assert not (out / "test_results.tsv").exists()
    assert beside.read_text() == "of another run"


def test_files_for_the_server_are_those_of_the_chosen_trial(
    options, goldens, tmp_path, trained
):
    data = str(goldens / "classifier/MNLI")
    options = options.replace(task_name="MNLI", data_dir=data)
    out = tmp_path / "out"
    out.mkdir()
    other = "predictions_of_march.tsv"
    for name in ("MNLI-m.tsv", "predictions.tsv", "RTE.tsv", other):
        (out / name).write_text("of an earlier choice, or of the user")
    run(options, TWO)
    assert not (out / "MNLI-m.tsv").exists()
    assert not (out / "predictions.tsv").exists()
    assert (out / "RTE.tsv").exists()  # no file of this task
    assert (out / other).exists()
    chosen = json.loads((out / "trials.json").read_text())["chosen"]
    (out / chosen / "MNLI-m.tsv").write_text("of this choice")
    run(options, TWO)
    assert (out / "MNLI-m.tsv").read_text() == "of this choice"


def test_of_a_trial_that_went_back_its_own_last_checkpoint_is_kept(
    options, tmp_path, trained
):
    folder = tmp_path / "out/trial-lr0.1-epochs1-batch8-seed12345"
    folder.mkdir(parents=True)
    (folder / "model.ckpt-5.index").touch()
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-2"')
    run(options, TrialOptions(learning_rates=(0.1, 0.3)))
    assert CheckpointManager(str(folder)).steps() == [2]


@pytest.mark.parametrize(("number", "kept"), [(None, 1), (5, 2)])
def test_a_number_of_checkpoints_holds_for_each_trial(
    options, tmp_path, trained, number, kept
):
    options = options.replace(keep_checkpoint_max=number)
    run(options, TWO)
    found = sorted((tmp_path / "out").glob("trial-*/*.index"))
    assert len(found) == kept + 2  # the made-up run keeps both of the chosen


def test_the_chosen_trial_answers_for_all(options, tmp_path, trained, logged):
    options = options.replace(do_predict=True, write_texts=True)
    outcome = run(options, RATES)
    out = tmp_path / "out"
    # All six, then the chosen one once more, to predict.
    rates = [(rate, seed) for rate in (0.1, 9.0, 0.3) for seed in (5, 6)]
    assert [(rate, seed % 10) for rate, seed, _ in trained[:6]] == rates
    assert trained[6:] == [(0.3, 12346, False)]
    assert outcome.results["dev"]["accuracy"] == pytest.approx(0.36)
    assert (out / "predictions.tsv").read_text() == "by 0.3 12346"
    assert float((out / "metrics.json").read_text()) == pytest.approx(0.36)
    assert "Trial 3 of 6: trial-lr9-epochs1-batch8-seed12345" in logged.text
    # The records are made once.
    made = {str(path.relative_to(out)) for path in out.rglob("*.tf_record")}
    assert made == {f"{x}.tf_record" for x in ("train", "eval", "predict")}
    kept = {
        path.name: CheckpointManager(str(path)).steps()
        for path in out.glob("trial-lr0*")
    }
    assert kept.pop("trial-lr0.3-epochs1-batch8-seed12346") == [1, 2]
    assert set(map(tuple, kept.values())) == {(2,)}
    check_table(out)
    # The same command repeats no trial; another seed is one more trial each.
    del trained[:]
    run(options, RATES)
    assert trained == [(0.3, 12346, False)]
    del trained[:]
    run(options, dataclasses.replace(RATES, num_trials=3))
    assert [x[:2] for x in trained] == [(x, 12347) for x in (0.1, 9, 0.3, 0.3)]


def check_table(out):
    """The table of the six trials, and its JSON file."""
    header, *rows = cells_in(out / "trials.tsv")
    settings = ["learning_rate", "epochs", "batch_size", "seed"]
    assert header[:6] == ["trial", *settings, "accuracy"]
    assert [row[5] for row in rows] == ["0.15", "0.16", "", "", "0.35", "0.36"]
    assert rows[2][-1] == "step 1: loss became nan"
    found = json.loads((out / "trials.json").read_text())
    assert found["chosen"] == "trial-lr0.3-epochs1-batch8-seed12346"
    assert found["settings"][1]["trials"] == "2 (2 failed)"
    assert found["settings"][2]["median"] == pytest.approx(0.355)


def test_workers_meet_at_each_trial(options, trained, monkeypatch):
    points = []
    monkeypatch.setattr(
        trials.devices, "check_together", lambda _, point: points.append(point)
    )
    for num_trials in (1, 2):
        asked = TrialOptions(num_trials=num_trials, learning_rates=(1e-3,))
        run(options, asked)
    name = "Trial trial-lr0.001-epochs1-batch8-seed"
    assert points == [
        f"{name}12345 (to do), with none failed before",
        f"{name}12345 (done before), with none failed before",
        f"{name}12346 (to do), with none failed before",
    ]


def test_a_folder_of_trials_answers_without_flags(options, tmp_path, trained):
    run(options, RATES)
    (tmp_path / "out/metrics.json").unlink()
    ask = options.replace(do_train=False, do_eval=True)
    run(ask, TrialOptions())
    train = options.finetuning.train
    assert trained[-1] == (train.learning_rate, train.seed, False)
    chosen = tmp_path / "out/trial-lr0.3-epochs1-batch8-seed12346"
    written = (chosen / "metrics.json").read_text()
    assert (tmp_path / "out/metrics.json").read_text() == written
    with pytest.raises(ValueError, match="holds trials; give their flags"):
        run(options, TrialOptions())
    # Also if they were stopped before one was chosen, or that one is gone.
    record = tmp_path / "out/trials.json"
    for text in "", '{"chosen": 5}', '{"chosen": "trial-gone"}':
        record.write_text(text)
        if not text:
            record.unlink()
        for one in options, ask:
            with pytest.raises(ValueError, match="trials; give their flags"):
                run(one, TrialOptions())
    run(options, RATES)
    assert json.loads(record.read_text())["chosen"] == chosen.name


def test_trials_of_other_flags_are_told_of(options, tmp_path, trained, caplog):
    run(options, TrialOptions(learning_rates=(0.1, 0.2)))
    assert "holds trials of other flags" not in caplog.text
    stale = tmp_path / "out/checkpoints.tsv"
    stale.write_text("of the chosen trial")
    run(options, TrialOptions(learning_rates=(0.3,)))
    told = "holds trials of other flags (trial-lr0.1-epochs1-batch8-seed12345, "
    assert told in caplog.text
    assert not stale.exists()


def test_a_stopped_command_leaves_no_results_of_an_earlier_choice(
    options, tmp_path, trained, monkeypatch
):
    options = options.replace(do_predict=True)
    run(options, TrialOptions(learning_rates=(0.1,)))
    out, train = tmp_path / "out", classifier.run
    assert {"predictions.tsv", "metrics.json"} < {*os.listdir(out)}

    def stopped_after_the_choice(options, inputs):
        if not options.do_train:
            raise KeyboardInterrupt
        return train(options, inputs)

    monkeypatch.setattr(classifier, "run", stopped_after_the_choice)
    vocab = out / "vocab.txt"
    vocab.write_text("of all trials")
    with pytest.raises(KeyboardInterrupt):
        run(options, TrialOptions(learning_rates=(0.1, 0.3)))
    chosen = json.loads((out / "trials.json").read_text())["chosen"]
    assert chosen.startswith("trial-lr0.3-")
    results = {"predictions.tsv", "metrics.json", "eval_results.txt"}
    assert not results & {*os.listdir(out)}
    assert vocab.exists()


def test_a_table_in_a_folder_of_trials_stays(options, tmp_path, trained):
    run(options, RATES)
    table = tmp_path / "out/predictions.tsv"
    table.write_text("text\nof the user\n")
    asked = {"do_predict": True, "task_options": {"test_file": str(table)}}
    for more, rates in (({"do_train": False}, TrialOptions()), ({}, RATES)):
        with pytest.raises(ValueError, match="--test_file"):
            run(options.replace(**asked, **more), rates)
    assert table.read_text() == "text\nof the user\n"


def test_a_trial_of_other_flags_or_data_is_refused(options, tmp_path, trained):
    run(options, TWO)
    # More checkpoints or log lines make no other trial, nor does an export.
    same = {"save_checkpoints_steps": 5, "log_steps": 7, "eval_batch_size": 3}
    run(options.replace(**same, do_export=True), TWO)
    assert len(trained) == 4  # two, and twice the chosen one
    # Nor do the places of the same rows, and ids for the answers.
    sets = {f"{x}_file": f"{x}.jsonl" for x in ("train", "dev", "test")}
    asked = {"do_predict": True, "task_options": {**sets, "id_column": "text"}}
    run(options.replace(**asked), TWO)
    assert len(trained) == 5
    message = "seed12345 was .* warmup_proportion 0.1 -> 0.2; .*--output_dir"
    with pytest.raises(ValueError, match=message):
        run(options.replace(warmup_proportion=0.2), TWO)
    text = (tmp_path / "data/dev.jsonl").read_text()
    (tmp_path / "data/dev.jsonl").write_text(text * 2)
    with pytest.raises(ValueError, match=r"flags or data: dev \(sha256\)"):
        run(options, TWO)


def test_the_folder_of_another_run_is_not_taken_over(options):
    os.makedirs(options.output_dir)
    open(f"{options.output_dir}/model.ckpt-3.index", "wb").close()
    for function in trials.check, trials.run:
        with pytest.raises(ValueError, match="--output_dir=.* is no trial;"):
            function(options, TWO)


def test_predicting_needs_trials_that_are_done(options, tmp_path, trained):
    ask = options.replace(do_train=False, do_predict=True)
    with pytest.raises(ValueError, match="holds no finished trial; give --do_"):
        run(ask, TWO)
    run(options, TWO)
    run(ask, TWO)
    assert (tmp_path / "out/predictions.tsv").read_text().endswith("12346")


def test_impossible_settings_are_refused_first(options, tmp_path, trained):
    parts = options.replace(gradient_accumulation_steps=4)
    with pytest.raises(ValueError, match="--trial_batch_sizes=6 cannot be div"):
        run(parts, TrialOptions(batch_sizes=(8, 6)))
    parts = parts.replace(train_batch_size=6)
    with pytest.raises(ValueError, match="--train_batch_size=6 cannot be divi"):
        run(parts, TWO)
    assert not list((tmp_path / "out").glob("*.tf_record"))
    with pytest.raises(ValueError, match="24 training examples in batches of "):
        run(options, TrialOptions(batch_sizes=(8, 32)))
    assert not trained


@pytest.mark.all
def test_a_chosen_trial_is_the_run_by_itself(options, tmp_path, caplog):
    options = options.replace(do_predict=True, write_texts=True)
    outcome = run(options, TWO.replace(learning_rates=(1e-3,)))
    found = json.loads((tmp_path / "out/trials.json").read_text())
    seed = int(found["chosen"].rpartition("seed")[2])
    out = str(tmp_path / "alone")
    alone = {"output_dir": out, "seed": seed, "learning_rate": 1e-3}
    by_itself = classifier.run(options.replace(do_eval=True, **alone))
    assert by_itself.results == outcome.results
    for name in ("test_results.tsv", "predictions.tsv", "eval_results.txt"):
        one, other = (tmp_path / x / name for x in ("out", "alone"))
        assert one.read_bytes() == other.read_bytes()
    given = frozenset(["max_seq_length"])
    run(options.replace(do_train=False, max_seq_length=16, given=given), ONE)
    assert caplog.text.count("--max_seq_length=16, but the model of") == 1
