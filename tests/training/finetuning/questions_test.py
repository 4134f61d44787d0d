"""Runs of questions: what is read, trained, kept and resumed."""

import collections
import json

import pytest
import tensorflow as tf

import modeling
from data.records import input_pipeline
from data.squad import windows
from data.storage import files
from tests.data.squad import support
from tests.support import rounding
from tests.training.squad_support import (
    make_options,
    questions_of,
    read_answers,
    run,
    same_answers,
)
from tests.training.support import recorded_metrics
from training.finetuning import answers
from training.finetuning.finetuner import Finetuning
from training.loop import trainer
from training.loop.checkpointing import CheckpointManager
from training.loop.steps import TrainSteps
from training.runs import questions


def train_by(monkeypatch, steps, last):
    """In place of a training: evaluations at some steps, then the last one."""

    def train(self, train_files, evaluate, num_examples):
        for step in steps:
            evaluate(step)
        return last

    monkeypatch.setattr(Finetuning, "train", train)


def test_trimmed_prediction_equals_untrimmed(
    goldens, tmp_path, answered_questions
):
    trimmed = read_answers(answered_questions)
    whole = run(goldens, tmp_path, trim_batches=False, predict_batch_size=16)
    assert trimmed["predictions"] == whole["predictions"]
    same_answers(trimmed["nbest_predictions"], whole["nbest_predictions"])
    assert trimmed["metrics"].items() <= whole["metrics"].items()
    gold = questions_of(goldens / "squad/dev-v1.1.json")
    assert trimmed["predictions"].keys() == gold.keys()
    assert trimmed["metrics"]["total"] == len(gold)
    assert "null_odds" not in trimmed


def with_short_paragraph(goldens, tmp_path):
    """The golden training file with a paragraph a tenth as long as others.

    The windows of the golden paragraphs are full.
    """
    content = json.loads((goldens / "squad/train-v1.1.json").read_text("utf-8"))
    answers = [("harbour", 27)]
    asked = [
        support.question(f"short {i}", "Where was the clock?", answers)
        for i in range(30)
    ]
    short = support.paragraph("The old clock stood in the harbour.", *asked)
    path = tmp_path / "train.json"
    support.write(path, *content["data"], support.article(short))
    return str(path)


@pytest.mark.all
def test_trimmed_training_equals_untrimmed(goldens, tmp_path, monkeypatch):
    train_file = with_short_paragraph(goldens, tmp_path)
    found, lengths = [], collections.Counter()
    gradients = TrainSteps._gradients

    def seen(self, batch, *args):
        lengths[batch["input_ids"].shape[1]] += 1
        tf.py_function(
            lambda ids: lengths.update([ids.shape[1]]), [batch["input_ids"]], []
        )
        return gradients(self, batch, *args)

    monkeypatch.setattr(TrainSteps, "_gradients", seen)
    for trim in (True, False):
        with recorded_metrics() as metrics:
            run(
                goldens,
                tmp_path / str(trim),
                train_file=train_file,
                do_train=True,
                do_predict=False,
                predict_file=None,
                trim_batches=trim,
                group_by_length=True,
            )
        found.append(metrics["loss"])
        if trim:
            # The window of the short paragraph is cut, exactly or to 24.
            assert min(filter(None, lengths)) <= 24 < max(filter(None, lengths))
    rounding.assert_equal(*found, rtol=rounding.EQUAL)
    assert len(found[0]) > 5


def test_a_run_reads_a_file_of_questions_once(goldens, tmp_path, monkeypatch):
    opened = collections.Counter()

    def open_read(path):
        opened[path] += 1
        return original(path)

    monkeypatch.setattr(trainer.Trainer, "train", lambda *args, **kwargs: 5)
    original = files.open_read
    monkeypatch.setattr(files, "open_read", open_read)
    options = make_options(goldens, tmp_path, do_train=True)
    questions.run(options)
    assert opened[options.train_file] == opened[options.predict_file] == 1


def test_a_run_converts_each_text_of_the_dev_set_once(
    goldens, tmp_path, monkeypatch, same_outputs
):
    texts = []

    class Counted(windows.TokenizedParagraph):
        def __init__(self, paragraph, tokenizer):
            super().__init__(paragraph, tokenizer)
            texts.append(paragraph.context)

    monkeypatch.setattr(windows, "TokenizedParagraph", Counted)
    train_by(monkeypatch, steps=(2, 4), last=4)
    options = make_options(
        goldens,
        tmp_path,
        "v2.0",
        do_train=True,
        train_file=str(goldens / "squad/train-v1.1.json"),
        eval_every_steps=2,
        find_null_threshold=True,
    )
    of_dev_set = collections.Counter(
        paragraph["context"]
        for _, article in options.predict_data.read().articles
        for paragraph in article["paragraphs"]
    )
    questions.run(options)
    counts = collections.Counter(text for text in texts if text in of_dev_set)
    assert counts == of_dev_set


def test_with_score_padding_no_batch_is_trimmed(goldens, tmp_path):
    options = make_options(goldens, tmp_path, score_padding=True)
    finetuning = questions.Run(options).make_model()
    assert not finetuning.options.trim_batches
    assert finetuning.model._score_padding


@pytest.mark.parametrize("count_windows", [False, True])
def test_epochs_are_counted_by_questions_as_the_original(
    goldens, tmp_path, monkeypatch, logged, count_windows
):
    steps = []

    def train(self, *args, **kwargs):
        steps.append(self._options.num_train_steps)

    monkeypatch.setattr(trainer.Trainer, "train", train)
    changes = {"num_train_epochs": 3.0, "count_windows": count_windows}
    run(goldens, tmp_path, do_train=True, do_predict=False, **changes)
    opened = input_pipeline.open_records(
        [str(tmp_path / "train.tf_record")],
        windows.feature_specs(96, is_training=True),
        limits={},
    )
    questions = len(questions_of(goldens / "squad/train-v1.1.json"))
    assert opened.count > questions
    count = opened.count if count_windows else questions
    assert steps == [int(count / 8 * 3.0)]
    counted = f"{questions} ({opened.count} records)"
    if count_windows:
        counted = str(opened.count)
    assert f"  Num examples = {counted}\n" in logged.text


@pytest.mark.parametrize(
    ("save_best", "expected"), [("", [2, 4, 5]), ("f1", [2, 4, 5, 2])]
)
def test_the_last_scores_are_of_the_weights_that_are_kept(
    goldens, tmp_path, monkeypatch, save_best, expected
):
    seen = []

    def evaluate(self, outputs, step):
        seen.append(step)
        self.step = step
        return {"exact_match": 0.0, "f1": -step}

    monkeypatch.setattr(answers.QuestionScorer, "evaluate", evaluate)
    train_by(monkeypatch, steps=(2, 4), last=5)
    monkeypatch.setattr(Finetuning, "outputs", lambda self, files: {})
    changes = {"eval_every_steps": 2, "save_best": save_best}
    run(goldens, tmp_path, do_train=True, do_predict=False, **changes)
    assert seen == expected


def test_the_best_weights_are_kept_and_answer(
    goldens, tmp_path, monkeypatch, same_outputs
):
    scores = iter([20.0, 60.0, 40.0, 30.0])
    monkeypatch.setattr(
        answers.QuestionScorer,
        "evaluate",
        lambda self, outputs, step: {"exact_match": 0.0, "f1": next(scores)},
    )

    def train(self, train_files, evaluate, num_examples):
        assert num_examples == 48
        return next(step for step in range(1, 5) if evaluate(step))

    monkeypatch.setattr(Finetuning, "train", train)
    changes = {"save_best": "f1", "early_stopping_patience": 2}
    found = run(goldens, tmp_path, do_train=True, eval_every_steps=1, **changes)
    assert found["metrics"]["global_step"] == 2
    assert found["best_checkpoint"]["value"] == 60.0
    assert found["best_checkpoint"]["dev"][0]["max_answer_length"] == 30
    assert found["task"]["weights"] == "best/model.ckpt-2"
    (tmp_path / "metrics.json").unlink()
    assert run(goldens, tmp_path, **changes)["metrics"]["global_step"] == 2


@pytest.mark.all
def test_training_resumes_and_uses_its_records_again(goldens, tmp_path):
    changes = {
        "do_train": True,
        "train_batch_size": 16,
        "save_checkpoints_steps": 1,
        "keep_checkpoint_max": 5,
        "trim_batches": False,  # one graph is made faster
    }
    run(goldens, tmp_path, do_predict=False, **changes)
    steps = CheckpointManager(str(tmp_path)).steps()
    assert len(steps) >= 2
    made = (tmp_path / "train.tf_record").stat().st_mtime_ns
    for path in tmp_path.glob(f"model.ckpt-{steps[-1]}*"):
        path.unlink()
    found = run(goldens, tmp_path, **changes)
    assert found["metrics"]["global_step"] == steps[-1]
    assert (tmp_path / "train.tf_record").stat().st_mtime_ns == made
    assert "null_odds" not in found


@pytest.mark.all
def test_a_bilstm_is_trained_remembered_and_loaded(goldens, tmp_path):
    out = tmp_path / "out"
    bilstm = {"head": "bilstm", "trim_batches": False}  # one graph is faster
    start = {"init_checkpoint": str(goldens / "model/init")}
    found = run(goldens, out, do_train=True, **bilstm, **start)
    assert found["head"] == {"feature_based": "", "head": "bilstm"}
    assert run(goldens, out, **bilstm)["predictions"] == found["predictions"]
    loaded = modeling.load(str(out))
    assert loaded.kind == "span" and loaded.model.bilstm
    with pytest.raises(ValueError, match="--head 'bilstm' -> 'linear'. Give"):
        run(goldens, out)
