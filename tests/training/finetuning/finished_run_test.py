"""What a finished fine-tuning leaves on the disk, and what can follow it."""

import json
import re
import shutil

import numpy as np
import pytest

import bert
from data.finetuning.long_text import LongTextOptions
from modeling import checkpoints
from tests.support.classifier_support import WORDS, write_table
from tests.support.finished_runs import CLASSIFIER
from tests.support.model_folder_support import change_description
from tests.support.run_files import json_lines_in
from tests.support.tiers import rare
from tests.training.finetuning_support import options_of
from training.finetuning.task_scorer import TaskScorer
from training.loop.checkpointing import CheckpointManager
from training.runs import classifier
from training.task_program import check_strip


@pytest.fixture
def run(goldens, tmp_path):
    write_table(tmp_path / "data", "single")

    def make(finetuning=None, **changes):
        finetuning = CLASSIFIER | (finetuning or {})
        return classifier.run(
            options_of(goldens, tmp_path, finetuning=finetuning, **changes)
        )

    return make


def names(path):
    return set(checkpoints.Checkpoint(str(path)).shapes)


def test_the_last_checkpoint_is_kept_and_works_without_slots(
    run, tmp_path, finished_classifier
):
    shutil.copytree(finished_classifier / "out", tmp_path / "out")
    assert CheckpointManager(str(tmp_path / "out")).steps() == [6]
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
    message = "--strip_checkpoint, .*--init_checkpoint=.*out and another --out"
    with pytest.raises(ValueError, match=message):
        run({"num_train_epochs": 3.0})
    # A later process answers without the train and dev sets.
    for name in "train", "dev":
        (tmp_path / f"data/{name}.jsonl").unlink()
    (tmp_path / "out/test_results.tsv").unlink()
    run(do_train=False, do_eval=False)
    assert (tmp_path / "out/test_results.tsv").read_bytes() == answers


@pytest.mark.all
def test_the_head_of_means_is_remembered_and_answers(run, tmp_path):
    run(head="mean", do_eval=False)
    rows = json_lines_in(tmp_path / "data/test.jsonl")
    answers = bert.load(tmp_path / "out").predict([row["text"] for row in rows])
    found = [[*answer["probabilities"].values()] for answer in answers]
    # The program predicts in batches of other lengths.
    written = np.loadtxt(tmp_path / "out/test_results.tsv")
    np.testing.assert_allclose(found, written, rtol=0, atol=1e-5)
    # It has the variables of a linear head, which reads the pooled [CLS].
    with pytest.raises(ValueError, match="--head 'mean' -> 'linear'. Give"):
        run(head="linear")
    other = {"init_checkpoint": str(tmp_path / "out")}
    other["output_dir"] = str(tmp_path / "other")
    with pytest.raises(ValueError, match="--head 'mean' -> 'linear'. Give"):
        run(other, do_train=False, head="linear")


def test_stripping_needs_training():
    with pytest.raises(ValueError, match="--strip_checkpoint removes.*do_trai"):
        check_strip(True, do_train=False)
    check_strip(True, do_train=True)
    check_strip(False, do_train=False)


@pytest.mark.all
def test_best_weights_are_the_same_without_slots(run, tmp_path):
    best = {"save_best": "eval_loss", "eval_every_steps": 2}
    first = run(best)
    again = run(best | {"strip_checkpoint": True})
    assert again == first == run(best, do_train=False)
    (path,) = (tmp_path / "out").glob("model.ckpt-*.index")
    assert not any("adam" in n for n in names(path.with_suffix("")))


@pytest.fixture
def asked(monkeypatch):
    """The labels that an earlier model lacks, each time it is scored."""
    asked, score = [], TaskScorer.score

    def scored(self, unknown=()):
        asked.append([self.task.labels[i] for i in unknown])
        return score(self, unknown)

    monkeypatch.setattr(TaskScorer, "score", scored)
    return asked


def test_a_finished_model_is_scored_before_it_is_trained_further(
    run, tmp_path, finished_classifier, logged, asked
):
    row = json.dumps({"text": "a new snow", "label": "a new label"})
    for name in ("train", "dev"):
        with (tmp_path / f"data/{name}.jsonl").open("a") as file:
            file.write(f"{row}\n" * 3)
    old = shutil.copytree(finished_classifier / "out", tmp_path / "old")
    (old / "train.tf_record").unlink()
    again = {"init_checkpoint": str(old), "num_train_epochs": 1.0}
    run(again, do_predict=False)
    assert f"t={old} was trained on 24 examples" in logged.text
    assert "train set:" not in logged.text  # Its records are gone.
    (line,) = [x for x in logged.messages if "before and after" in x]
    before = json.loads((finished_classifier / "out/metrics.json").read_text())
    # It answers as before, and never with the label that it does not have.
    assert asked == [["a new label"]]
    right = before["dev"]["accuracy"] * 9 / (9 + 3)
    assert f"accuracy {right:.4f} -> " in line


@pytest.mark.all
def test_records_of_an_earlier_model_may_be_gone(
    goldens, tmp_path, finished_classifier, logged, asked
):
    """Here it is named by its best weights, and has a head of another kind."""
    old = shutil.copytree(finished_classifier, tmp_path / "old") / "out"
    (old / "train.tf_record").unlink()
    (old / "best").mkdir()
    for path in old.glob("model.ckpt-*"):
        path.rename(old / "best" / path.name)
    change_description(old, kind="multilabel")
    write_table(tmp_path / "data", "single")
    (best,) = old.glob("best/*.index")
    given = {"init_checkpoint": str(best.with_suffix(""))}
    given["num_train_epochs"] = 1.0
    classifier.run(options_of(goldens, tmp_path, finetuning=given))
    assert f"/{best.stem} was trained on 24 examples" in logged.text
    assert "train set:" not in logged.text
    assert asked == []


def said_of(caplog, set_name):
    (line,) = [x for x in caplog.messages if x.startswith(f"{set_name} set:")]
    numbers, _, places = line.partition(" new")
    return [*map(int, re.findall(r"\d+", numbers))], places


@pytest.mark.parametrize(
    "long_text", [None, rare(LongTextOptions(mode="windows"))]
)
def test_rows_that_an_earlier_model_has_not_seen_are_named(
    goldens, tmp_path, finished_classifier, logged, asked, long_text
):
    given, finetuning = {"do_predict": False}, {"num_train_epochs": 1.0}
    if long_text:
        given["long_text"] = long_text
        finetuning["max_seq_length"] = 12
        write_table(tmp_path / "data", "single")
        classifier.run(
            options_of(goldens, tmp_path, finetuning=finetuning, **given)
        )
    else:
        shutil.copytree(finished_classifier, tmp_path, dirs_exist_ok=True)
    # Next week: one new row at line 2 and five at the end, a label that is
    # corrected, and a row of the train set in the dev set.
    texts = [f"a new snow {word}" for word in WORDS]
    new = [json.dumps({"text": x, "label": "l0"}) for x in texts]
    train, dev = (tmp_path / f"data/{x}.jsonl" for x in ("train", "dev"))
    first, *rest = train.read_text().splitlines()
    first = json.dumps(json.loads(first) | {"label": "l1"})
    train.write_text("\n".join([first, new[0], *rest, *new[1:], ""]))
    dev.write_text(f"{dev.read_text()}{rest[0]}\n")
    again = finetuning | {"init_checkpoint": str(tmp_path / "out")}
    logged.clear()
    again = options_of(goldens, tmp_path, finetuning=again, **given)
    classifier.run(again.replace(output_dir=str(tmp_path / "second")))
    lines = "; ".join(f"{train}, line {x}" for x in (2, 26, 27, 28, 29))
    # All, learned before, of these with another label, new.
    assert said_of(logged, "train") == ([30, 24, 1, 6], f": {lines}; ...")
    assert said_of(logged, "dev") == ([10, 1, 0], ".")
    assert asked == [[]]  # It has all labels.


def test_what_shapes_the_training_is_warned_of(
    run, goldens, tmp_path, finished_classifier, caplog
):
    shutil.copytree(finished_classifier / "out", tmp_path / "out")
    other = {"init_checkpoint": str(goldens / "model/init/bert_model.ckpt")}
    run(
        {"num_train_epochs": 3.0, "shuffle_window": 7, **other},
        class_weights=(1.0, 2.0),
        do_eval=False,
        do_predict=False,
    )
    (message,) = (x for x in caplog.messages if "other settings" in x)
    for change in ("weights [] -> [1.0, 2.0]", "window 0 -> 7", "_train_steps"):
        assert change in message
    assert "init_checkpoint is not used: " in caplog.text
    # The answers of the weights before are there, too.
    for name in ("predictions.tsv", "test_results.tsv"):
        assert f"{name} was written before step" in caplog.text
    for name in ("dev_predictions.tsv", "metrics.json", "errors.html"):
        assert re.search(f"{name} was .*--do_eval", caplog.text)


def test_a_model_that_is_not_used_is_said_of_a_run_from_random_weights(
    goldens, tmp_path, finished_classifier, caplog
):
    shutil.copytree(finished_classifier, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "out/model.ckpt-6.resume.json"
    point = json.loads(path.read_text())
    del point["settings"]["init_checkpoint"]
    del point["sha256"], point["index_sha256"]
    path.write_text(json.dumps(point))
    classifier.Run(options_of(goldens, tmp_path, do_train=False))
    assert "--init_checkpoint is not used: " in caplog.text


def test_labels_without_a_row_in_a_dev_file_are_said(
    run, tmp_path, finished_classifier, caplog
):
    shutil.copytree(finished_classifier / "out", tmp_path / "out")
    path = tmp_path / "data/dev.jsonl"
    rows = [x for x in path.read_text().splitlines(True) if '"l0"' in x]
    path.write_text("".join(rows))
    own = {"init_checkpoint": str(tmp_path / "out/model.ckpt-6")}
    run(own, do_train=False, do_predict=False)
    assert "The dev set has no row of the labels l1." in caplog.text
    assert "is not used" not in caplog.text  # no warning: they are
