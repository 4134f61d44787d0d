"""What a finished fine-tuning leaves on the disk, and what can follow it."""

import json
import shutil

import pytest

from modeling import checkpoints
from tests.support.classifier_support import write_table
from tests.support.finished_runs import CLASSIFIER
from tests.training.finetuning_support import options_of
from training.config.finetuning_options import TrialOptions
from training.loop.checkpointing import CheckpointManager
from training.many_runs import trials
from training.runs import classifier
from training.task_program import check_strip


@pytest.fixture
def run(goldens, tmp_path):
    write_table(tmp_path / "data", "single")

    def make(finetuning=None, **changes):
        finetuning = CLASSIFIER | (finetuning or {})
        options = options_of(
            goldens, tmp_path, finetuning=finetuning, **changes
        )
        return classifier.run(options)

    return make


def steps(tmp_path):
    return CheckpointManager(str(tmp_path / "out")).steps()


def names(path):
    return set(checkpoints.Checkpoint(str(path)).shapes)


def test_the_last_checkpoint_is_kept_and_works_without_slots(
    run, tmp_path, finished_classifier
):
    shutil.copytree(finished_classifier / "out", tmp_path / "out")
    assert steps(tmp_path) == [6]
    path = tmp_path / "out/model.ckpt-6"
    before = names(path)
    assert any(name.endswith("adam_m") for name in before)
    answers = (tmp_path / "out/test_results.tsv").read_bytes()
    scores = (tmp_path / "out/metrics.json").read_bytes()
    # The same command with the flag trains nothing, and removes the slots.
    assert run({"strip_checkpoint": True}).step == 6
    assert (tmp_path / "out/metrics.json").read_bytes() == scores
    assert (tmp_path / "out/test_results.tsv").read_bytes() == answers
    assert names(path) == {n for n in before if "adam" not in n}
    with pytest.raises(
        ValueError,
        match="out was finished at step 6 with --strip_checkpoint, which "
        "removed the optimizer slots, so training cannot go on to "
        "--num_train_steps=9. To start from its weights, give "
        "--init_checkpoint=.*out and another --output_dir.",
    ):
        run({"num_train_epochs": 3.0})
    # A later process answers without the train and dev sets.
    for name in "train", "dev":
        (tmp_path / f"data/{name}.jsonl").unlink()
    (tmp_path / "out/test_results.tsv").unlink()
    run(do_train=False, do_eval=False)
    assert (tmp_path / "out/test_results.tsv").read_bytes() == answers


def test_a_given_number_of_checkpoints_is_kept(run, tmp_path):
    (tmp_path / "data/dev.jsonl").unlink()
    share = {"kind": "single", "dev_share": 0.25}
    more = {"keep_checkpoint_max": 2, "save_checkpoints_steps": 1}
    first = run(more, task_options=share)
    last = steps(tmp_path)[-1]
    assert steps(tmp_path) == [last - 1, last]
    written = (tmp_path / "out/dev_predictions.tsv").read_bytes()
    assert 0 < written.count(b"\n") - 1 < 24
    # A process that only evaluates draws the same dev set.
    again = run(task_options=share, do_train=False, do_predict=False)
    assert again.results == first.results
    assert (tmp_path / "out/dev_predictions.tsv").read_bytes() == written


def test_stripping_needs_training():
    with pytest.raises(ValueError, match="--strip_checkpoint removes.*do_trai"):
        check_strip(True, do_train=False)
    check_strip(True, do_train=True)
    check_strip(False, do_train=False)


@pytest.mark.all
def test_trials_are_stripped(goldens, tmp_path):
    write_table(tmp_path / "data", "single")
    options = options_of(
        goldens, tmp_path, finetuning=CLASSIFIER | {"strip_checkpoint": True}
    )
    trials.run(options, TrialOptions(num_trials=2))
    found = sorted((tmp_path / "out").glob("trial-*/model.ckpt-*.index"))
    assert len(found) == 2
    for path in found:
        left = names(path.with_suffix(""))
        assert not any("adam" in name for name in left)
    for name in "dev_predictions.tsv", "errors.html", "predictions.tsv":
        assert (tmp_path / "out" / name).exists()


@pytest.mark.all
def test_best_weights_are_the_same_without_slots(run, tmp_path):
    best = {"save_best": "eval_loss", "eval_every_steps": 2}
    first = run(best)
    again = run(best | {"strip_checkpoint": True})
    assert again == first == run(best, do_train=False)
    (path,) = (tmp_path / "out").glob("model.ckpt-*.index")
    assert not any("adam" in n for n in names(path.with_suffix("")))


def test_a_finished_model_is_scored_before_it_is_trained_further(
    goldens, tmp_path, finished_classifier, caplog
):
    caplog.set_level("INFO", logger="absl")
    write_table(tmp_path / "data", "single")
    old = str(finished_classifier / "out")
    finetuning = {"init_checkpoint": old, "num_train_epochs": 1.0}
    classifier.run(options_of(goldens, tmp_path, finetuning=finetuning))
    assert f"--init_checkpoint={old} was trained on 24 examples" in caplog.text
    (line,) = [x for x in caplog.messages if "before and after" in x]
    before = json.loads((finished_classifier / "out/metrics.json").read_text())
    assert f"accuracy {before['dev']['accuracy']:.4f} -> " in line
