"""Trials: the choice by hand, the runs with a training that is a formula."""

import dataclasses
import json
import math
import os

import pytest

from modeling.checkpoints.tf1 import write_state
from tests.support.classifier_support import write_table
from tests.training.finetuning_support import make_options
from training.config.finetuning_options import TrialOptions
from training.loop.checkpointing import CheckpointManager
from training.many_runs import repeat, trials
from training.many_runs.trial_choice import Trial, choose, short, summarize
from training.runs import classifier
from training.runs.classifier import Outcome


def classifier_options(goldens, folder, **changes):
    """A table of one's own, trained on for an epoch."""
    finetuning = changes.pop("finetuning", {})
    return classifier.ClassifierOptions(
        **{
            "task_name": "tsv",
            "data_dir": str(folder / "data"),
            "vocab_file": str(goldens / "vocab.txt"),
            "do_train": True,
            "finetuning": make_options(
                goldens,
                folder / "out",
                **{"max_seq_length": 24, "num_train_epochs": 1.0} | finetuning,
            ),
            **changes,
        }
    )


def run(options, asked):
    """Runs the trials that are asked for."""
    return trials.run(options, asked)


def made_trials(goldens, tmp_path, table):
    """Trials by learning rate -> values; None = it failed."""
    base = classifier_options(goldens, tmp_path)
    found = []
    for rate, values in table.items():
        options = trials.trials_of(
            base, TrialOptions(num_trials=len(values), learning_rates=(rate,))
        )
        for one, value in zip(options, values, strict=True):
            results = {} if value is None else {"dev": {"f1": value, "mse": 1}}
            found.append(Trial(one, results, 1.0, "" if results else "nan!"))
    return found


def test_a_setting_is_summed_up_by_its_finished_trials(goldens, tmp_path):
    found = made_trials(
        goldens, tmp_path, {5e-5: [0.1, 0.4, 0.2, None], 3e-5: [0.7]}
    )
    first, second = summarize(found, "f1")
    # The deviation of 1, 4, 2: mean 7/3, squares 42/9, over n - 1 = 2.
    assert first == [
        "5e-5",
        "1",
        "8",
        0.2,
        0.1,
        0.4,
        pytest.approx(math.sqrt(42 / 9 / 2) / 10),
        "4 (1 failed)",
    ]
    assert second == ["3e-5", "1", "8", 0.7, 0.7, 0.7, None, "1"]


@pytest.mark.parametrize(
    ("table", "rate", "seed"),
    [
        # The best median, not the best trial; its best seed.
        ({5e-5: [0.9, 0.1, 0.2], 3e-5: [0.3, 0.5, 0.4]}, 3e-5, 12346),
        # Ties: the first setting, the first seed.
        ({5e-5: [0.4, 0.6, 0.6], 3e-5: [0.7, 0.6, 0.5]}, 5e-5, 12346),
        # What failed is worse than anything: medians 0.3 and none.
        ({5e-5: [0.9, None, None], 3e-5: [0.1, 0.3, 0.4]}, 3e-5, 12347),
        ({5e-5: [0.3, None, 0.2], 3e-5: [0.1, 0.1, 0.1]}, 5e-5, 12345),
        # Most trials failed everywhere: the finished ones decide.
        ({5e-5: [0.3, None], 3e-5: [None, 0.4]}, 3e-5, 12346),
        ({5e-5: [None, None], 3e-5: [None, -0.4]}, 3e-5, 12346),
        ({5e-5: [math.nan, 0.0]}, 5e-5, 12346),
    ],
)
def test_the_best_seed_of_the_best_median_is_chosen(
    goldens, tmp_path, table, rate, seed
):
    chosen = choose(made_trials(goldens, tmp_path, table), "f1")
    assert (chosen.setting[0], chosen.options.find("seed")) == (rate, seed)


def test_errors_count_downwards(goldens, tmp_path):
    found = made_trials(goldens, tmp_path, {5e-5: [0.2], 3e-5: [0.2]})
    worse = dataclasses.replace(found[0], results={"dev": {"loss": 2.0}})
    better = dataclasses.replace(found[1], results={"dev": {"loss": 1.0}})
    assert choose([worse, better], "loss") is better


def test_if_all_fail_there_is_nothing_to_choose(goldens, tmp_path):
    found = made_trials(goldens, tmp_path, {5e-5: [None, None]})
    with pytest.raises(ValueError, match="all 2 trials failed; the first: nan"):
        choose(found, "f1")


def test_settings_times_seeds_each_in_its_folder(goldens, tmp_path):
    planned = trials.trials_of(
        classifier_options(goldens, tmp_path),
        TrialOptions(
            num_trials=2,
            learning_rates=(5e-5, 0.001),
            epochs=(2.0, 2.5),
            batch_sizes=(16,),
        ),
    )
    folders = [one.finetuning.train.output_dir for one in planned]
    assert [os.path.basename(folder) for folder in folders] == [
        f"trial-lr{rate}-epochs{epochs}-batch16-seed{seed}"
        for rate in ("5e-5", "0.001")
        for epochs in ("2", "2.5")
        for seed in (12345, 12346)
    ]
    assert planned[3].finetuning.num_train_epochs == 2.5
    assert planned[3].finetuning.train.train_batch_size == 16
    assert planned[3].finetuning.train.seed == 12346
    assert short(2e-5) == "2e-5"


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
                path = manager.prefix(step)
                for ending in (".index", ".data-00000-of-00001"):
                    with open(path + ending, "w") as file:
                        file.write("")
        score = train.learning_rate + (train.seed % 10) / 100
        for name in ("eval_results.txt", "metrics.json"):
            with open(os.path.join(train.output_dir, name), "w") as file:
                file.write(f"{score}")
        if options.do_predict:
            assert inputs.test
            path = os.path.join(train.output_dir, "predictions.tsv")
            with open(path, "w") as file:
                file.write(f"by {train.learning_rate} {train.seed}")
        results = {"dev": {"accuracy": score, "macro_f1": score}}
        return Outcome(2, results, manager.prefix(2))

    monkeypatch.setattr(classifier, "run", train_once)
    return calls


RATES = TrialOptions(num_trials=2, learning_rates=(0.1, 9.0, 0.3))


@pytest.mark.parametrize(
    "name", ["run*", pytest.param("run?", marks=pytest.mark.all), "a, b"]
)
def test_a_folder_of_trials_may_have_any_name(goldens, tmp_path, trained, name):
    for folder in (tmp_path / name, tmp_path / "run1"):
        (folder / "out").mkdir(parents=True)
    beside = tmp_path / "run1/out/predictions.tsv"
    beside.write_text("of another run")
    write_table(tmp_path / name / "data", "single")
    options = classifier_options(goldens, tmp_path / name, do_predict=True)
    out = tmp_path / name / "out"
    for rates in ((0.1,), (0.1, 0.3)):
        run(options, TrialOptions(learning_rates=rates, num_trials=2))
        predicted = (out / "predictions.tsv").read_text()
        assert predicted == f"by {rates[-1]} 12346"
    options = dataclasses.replace(options, do_predict=False)
    (out / "test_results.tsv").write_text("of an earlier choice")
    run(options, TrialOptions(learning_rates=(0.1,), num_trials=2))
    assert not (out / "test_results.tsv").exists()
    assert beside.read_text() == "of another run"


def test_files_for_the_server_are_those_of_the_chosen_trial(
    goldens, tmp_path, trained
):
    options = classifier_options(
        goldens,
        tmp_path,
        task_name="MNLI",
        data_dir=str(goldens / "classifier/MNLI"),
    )
    out = tmp_path / "out"
    out.mkdir()
    other = "predictions_of_march.tsv"
    for name in ("MNLI-m.tsv", "predictions.tsv", "RTE.tsv", other):
        (out / name).write_text("of an earlier choice, or of the user")
    run(options, TrialOptions(num_trials=2))
    assert not (out / "MNLI-m.tsv").exists()
    assert not (out / "predictions.tsv").exists()
    assert (out / "RTE.tsv").exists()  # no file of this task
    assert (out / other).exists()
    chosen = json.loads((out / "trials.json").read_text())["chosen"]
    (out / chosen / "MNLI-m.tsv").write_text("of this choice")
    run(options, TrialOptions(num_trials=2))
    assert (out / "MNLI-m.tsv").read_text() == "of this choice"


def test_of_a_trial_that_went_back_its_own_last_checkpoint_is_kept(
    goldens, tmp_path, trained
):
    write_table(tmp_path / "data", "single")
    folder = tmp_path / "out/trial-lr0.1-epochs1-batch8-seed12345"
    folder.mkdir(parents=True)
    (folder / "model.ckpt-5.index").touch()
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-2"')
    options = classifier_options(goldens, tmp_path)
    run(options, TrialOptions(learning_rates=(0.1, 0.3)))
    assert CheckpointManager(str(folder)).steps() == [2]


@pytest.mark.parametrize(("number", "kept"), [(None, 1), (5, 2)])
def test_a_number_of_checkpoints_holds_for_each_trial(
    goldens, tmp_path, trained, number, kept
):
    write_table(tmp_path / "data", "single")
    options = classifier_options(goldens, tmp_path)
    options = options.replace(keep_checkpoint_max=number)
    run(options, TrialOptions(num_trials=2))
    found = sorted((tmp_path / "out").glob("trial-*/*.index"))
    assert len(found) == kept + 2  # the made-up run keeps both of the chosen


def test_the_chosen_trial_answers_for_all(goldens, tmp_path, trained, caplog):
    caplog.set_level("INFO", logger="absl")
    write_table(tmp_path / "data", "single")
    options = classifier_options(goldens, tmp_path, do_predict=True)
    outcome = run(options, RATES)
    out = tmp_path / "out"
    # All six, then the chosen one once more, to predict.
    rates = [(rate, seed) for rate in (0.1, 9.0, 0.3) for seed in (5, 6)]
    assert [(rate, seed % 10) for rate, seed, _ in trained[:6]] == rates
    assert trained[6:] == [(0.3, 12346, False)]
    assert outcome.results["dev"]["accuracy"] == pytest.approx(0.36)
    assert (out / "predictions.tsv").read_text() == "by 0.3 12346"
    assert float((out / "metrics.json").read_text()) == pytest.approx(0.36)
    assert "Trial 3 of 6: trial-lr9-epochs1-batch8-seed12345" in caplog.text
    # The records are made once.
    assert {path.name for path in tmp_path.rglob("*.tf_record")} == {
        "train.tf_record",
        "eval.tf_record",
        "predict.tf_record",
    }
    assert not list(out.glob("trial-*/*.tf_record"))
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
    assert [call[:2] for call in trained] == [
        (0.1, 12347),
        (9.0, 12347),
        (0.3, 12347),
        (0.3, 12347),
    ]


def check_table(out):
    """The table of the six trials, and its JSON file."""
    header, *rows = [
        line.split("\t")
        for line in (out / "trials.tsv").read_text().splitlines()
    ]
    assert header[:6] == [
        "trial",
        "learning_rate",
        "epochs",
        "batch_size",
        "seed",
        "accuracy",
    ]
    assert [row[5] for row in rows] == ["0.15", "0.16", "", "", "0.35", "0.36"]
    assert rows[2][-1] == "step 1: loss became nan"
    found = json.loads((out / "trials.json").read_text())
    assert found["chosen"] == "trial-lr0.3-epochs1-batch8-seed12346"
    assert found["settings"][1]["trials"] == "2 (2 failed)"
    assert found["settings"][2]["median"] == pytest.approx(0.355)


def test_workers_come_to_each_trial_together(
    goldens, tmp_path, trained, monkeypatch
):
    write_table(tmp_path / "data", "single")
    points = []
    monkeypatch.setattr(
        repeat, "check_together", lambda strategy, point: points.append(point)
    )
    options = classifier_options(goldens, tmp_path)
    for num_trials in (1, 2):
        asked = TrialOptions(num_trials=num_trials, learning_rates=(1e-3,))
        run(options, asked)
    name = "Trial trial-lr0.001-epochs1-batch8-seed"
    assert points == [
        f"{name}12345 (to do), with none failed before",
        f"{name}12345 (done before), with none failed before",
        f"{name}12346 (to do), with none failed before",
    ]


def test_a_folder_of_trials_answers_without_their_flags(
    goldens, tmp_path, trained
):
    write_table(tmp_path / "data", "single")
    options = classifier_options(goldens, tmp_path)
    run(options, RATES)
    (tmp_path / "out/metrics.json").unlink()
    ask = dataclasses.replace(options, do_train=False, do_eval=True)
    run(ask, TrialOptions())
    assert trained[-1] == (
        options.finetuning.train.learning_rate,
        options.finetuning.train.seed,
        False,
    )
    chosen = tmp_path / "out/trial-lr0.3-epochs1-batch8-seed12346"
    written = (chosen / "metrics.json").read_text()
    assert (tmp_path / "out/metrics.json").read_text() == written
    with pytest.raises(ValueError, match="holds trials; give their flags"):
        run(options, TrialOptions())
    # Also if they were stopped before one was chosen.
    (tmp_path / "out/trials.json").unlink()
    for one in options, ask:
        with pytest.raises(ValueError, match="holds trials; give their flags"):
            run(one, TrialOptions())


def test_trials_of_other_flags_are_told_of(goldens, tmp_path, trained, caplog):
    write_table(tmp_path / "data", "single")
    options = classifier_options(goldens, tmp_path)
    run(options, TrialOptions(learning_rates=(0.1, 0.2)))
    assert "holds trials of other flags" not in caplog.text
    stale = tmp_path / "out/checkpoints.tsv"
    stale.write_text("of the chosen trial")
    run(options, TrialOptions(learning_rates=(0.3,)))
    told = "holds trials of other flags (trial-lr0.1-epochs1-batch8-seed12345, "
    assert told in caplog.text
    assert not stale.exists()


def test_the_table_of_a_folder_of_trials_is_not_written_over(
    goldens, tmp_path, trained
):
    write_table(tmp_path / "data", "single")
    options = classifier_options(goldens, tmp_path)
    run(options, RATES)
    table = tmp_path / "out/predictions.tsv"
    table.write_text("text\nof the user\n")
    asked = {"do_predict": True, "task_options": {"test_file": str(table)}}
    for more, rates in (({"do_train": False}, TrialOptions()), ({}, RATES)):
        with pytest.raises(ValueError, match="--test_file"):
            run(classifier_options(goldens, tmp_path, **asked, **more), rates)
    assert table.read_text() == "text\nof the user\n"


def test_a_trial_of_other_flags_or_data_is_refused(goldens, tmp_path, trained):
    write_table(tmp_path / "data", "single")
    two = TrialOptions(num_trials=2)
    run(classifier_options(goldens, tmp_path), two)
    # More checkpoints or log lines make no other trial.
    same = {"save_checkpoints_steps": 5, "log_steps": 7, "eval_batch_size": 3}
    run(classifier_options(goldens, tmp_path, finetuning=same), two)
    assert len(trained) == 4  # two, and twice the chosen one
    # Nor do the places of the same rows, and ids for the answers.
    sets = {
        f"{name}_file": f"{name}.jsonl" for name in ("train", "dev", "test")
    }
    asked = {"do_predict": True, "task_options": {**sets, "id_column": "text"}}
    run(classifier_options(goldens, tmp_path, **asked), two)
    assert len(trained) == 5
    with pytest.raises(
        ValueError,
        match="seed12345 was made with different flags or data: "
        r"warmup_proportion 0.1 -> 0.2; give another --output_dir, or remove",
    ):
        other = {"warmup_proportion": 0.2}
        run(classifier_options(goldens, tmp_path, finetuning=other), two)
    text = (tmp_path / "data/dev.jsonl").read_text()
    (tmp_path / "data/dev.jsonl").write_text(text * 2)
    with pytest.raises(ValueError, match=r"flags or data: dev \(sha256\)"):
        run(classifier_options(goldens, tmp_path), two)


def test_the_folder_of_another_run_is_not_taken_over(goldens, tmp_path):
    write_table(tmp_path / "data", "single")
    options = classifier_options(goldens, tmp_path)
    two = TrialOptions(num_trials=2)
    os.makedirs(options.output_dir)
    write_state(options.output_dir, ["model.ckpt-3"])
    for function in trials.check, trials.run:
        with pytest.raises(ValueError, match="--output_dir=.* is no trial;"):
            function(options, two)


def test_predicting_needs_trials_that_are_done(goldens, tmp_path, trained):
    write_table(tmp_path / "data", "single")
    options = classifier_options(
        goldens, tmp_path, do_train=False, do_predict=True
    )
    two = TrialOptions(num_trials=2)
    with pytest.raises(ValueError, match="holds no finished trial; give --do_"):
        run(options, two)
    run(classifier_options(goldens, tmp_path), two)
    run(options, two)
    answers = (tmp_path / "out/predictions.tsv").read_text()
    assert answers.endswith("12346")


def test_settings_that_cannot_be_trained_are_refused_first(
    goldens, tmp_path, trained
):
    write_table(tmp_path / "data", "single")
    options = classifier_options(goldens, tmp_path)
    with pytest.raises(ValueError, match="24 training examples in batches of "):
        run(options, TrialOptions(batch_sizes=(8, 32)))
    options = classifier_options(
        goldens, tmp_path, finetuning={"gradient_accumulation_steps": 4}
    )
    with pytest.raises(ValueError, match="--trial_batch_sizes=6 cannot be div"):
        run(options, TrialOptions(batch_sizes=(8, 6)))
    assert not trained


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_trials": 0}, "--num_trials=0; it must be at least 1"),
        ({"epochs": (2, 3, 2)}, "--trial_epochs=2,3,2 has a value twice"),
    ],
)
def test_impossible_trials_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        TrialOptions(**changes)


@pytest.mark.all
def test_a_chosen_trial_is_the_run_by_itself(goldens, tmp_path):
    write_table(tmp_path / "data", "single")
    outcome = run(
        classifier_options(goldens, tmp_path, do_predict=True),
        TrialOptions(num_trials=2, learning_rates=(1e-3,)),
    )
    found = json.loads((tmp_path / "out/trials.json").read_text())
    seed = int(found["chosen"].rpartition("seed")[2])
    alone = classifier_options(
        goldens,
        tmp_path,
        do_eval=True,
        do_predict=True,
        finetuning={"seed": seed, "learning_rate": 1e-3},
    )
    train = dataclasses.replace(
        alone.finetuning.train, output_dir=str(tmp_path / "alone")
    )
    finetuning = dataclasses.replace(alone.finetuning, train=train)
    by_itself = classifier.run(
        dataclasses.replace(alone, finetuning=finetuning)
    )
    assert by_itself.results == outcome.results
    for name in ("test_results.tsv", "predictions.tsv", "eval_results.txt"):
        assert (tmp_path / "out" / name).read_bytes() == (
            tmp_path / "alone" / name
        ).read_bytes()
