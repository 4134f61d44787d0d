"""Questions answered whole: training, scores, thresholds, files."""

import collections
import json

import numpy as np
import pytest
import tensorflow as tf

import modeling
from data.records import input_pipeline
from data.squad import windows
from data.storage import files
from tests.data.squad import support
from tests.support import rounding
from tests.training.finetuning_support import record_losses
from tests.training.squad_support import (
    make_options,
    questions_of,
    read_answers,
    run,
    same_answers,
    without_answers,
)
from training.finetuning import answers
from training.finetuning.finetuner import Finetuning
from training.loop import trainer
from training.loop.steps import TrainSteps
from training.runs import questions


@pytest.fixture(scope="module")
def trimmed(answered_questions):
    """The answers of a run in trimmed batches."""
    return read_answers(answered_questions)


@pytest.fixture
def same_outputs(monkeypatch):
    """A model predicts once; it is asked about one file only.

    Each later time it gives the same outputs, which saves the tracing.
    """
    outputs, found = Finetuning.outputs, []

    def once(self, files):
        if not found:
            found.append(outputs(self, files))
        return dict(found[0])

    monkeypatch.setattr(Finetuning, "outputs", once)


def test_trimmed_prediction_equals_untrimmed(goldens, tmp_path, trimmed):
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
    short = {
        "context": "The old clock stood in the harbour.",
        "qas": [
            {
                "id": f"short {i}",
                "question": "Where was the clock?",
                "answers": [{"text": "harbour", "answer_start": 27}],
            }
            for i in range(30)
        ],
    }
    content["data"].append({"title": "short", "paragraphs": [short]})
    train_file = tmp_path / "train.json"
    train_file.write_text(json.dumps(content), "utf-8")
    return str(train_file)


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
        with monkeypatch.context() as patch:
            losses = record_losses(patch)
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
        found.append(losses)
        if trim:
            # The window of the short paragraph is cut, exactly or to 24.
            assert min(filter(None, lengths)) <= 24 < max(filter(None, lengths))
    np.testing.assert_allclose(*found, atol=rounding.EQUAL, rtol=rounding.EQUAL)
    assert len(found[0]) > 5


def test_a_run_reads_each_file_of_questions_once(
    goldens, tmp_path, monkeypatch
):
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

    def train(self, train_files, evaluate, num_examples):
        for step in (2, 4):
            evaluate(step)
        return 4

    monkeypatch.setattr(Finetuning, "train", train)
    options = make_options(
        goldens,
        tmp_path,
        "v2.0",
        do_train=True,
        train_file=str(goldens / "squad/train-v1.1.json"),
        eval_every_steps=2,
        find_null_threshold=True,
    )
    data = options.predict_data.read()
    expected = [
        paragraph["context"]
        for _, article in data.articles
        for paragraph in article["paragraphs"]
    ]
    of_dev_set = collections.Counter(expected)
    questions.run(options)
    counts = collections.Counter(text for text in texts if text in of_dev_set)
    assert counts == of_dev_set


def test_with_score_padding_no_batch_is_trimmed(goldens, tmp_path):
    options = make_options(goldens, tmp_path, score_padding=True)
    finetuning = questions.Run(options).make_model()
    assert not finetuning.options.trim_batches
    assert finetuning.model._score_padding


def test_padding_is_never_among_the_best_but_if_wanted(goldens, tmp_path):
    rng = np.random.default_rng(1)
    outputs = {
        "predictions": rng.normal(size=(2, 40, 2)).astype(np.float32),
        "num_tokens": np.array([40, 13]),
    }

    def scores_of(**changes):
        options = make_options(goldens, tmp_path, **changes)
        return questions.Run(options).scorer._scores(outputs)

    scores = scores_of()
    assert scores.shape == (2, 96, 2)
    np.testing.assert_array_equal(scores[0, :40], outputs["predictions"][0])
    np.testing.assert_array_equal(
        scores[1, :13], outputs["predictions"][1, :13]
    )
    assert scores[0, 40:].max() == scores[1, 13:].max() == -1e9
    assert scores_of(score_padding=True) is outputs["predictions"]


@pytest.mark.parametrize("count_windows", [False, True])
def test_epochs_are_counted_by_questions_as_the_original(
    goldens, tmp_path, monkeypatch, caplog, count_windows
):
    caplog.set_level("INFO", logger="absl")
    steps = []
    monkeypatch.setattr(
        trainer.Trainer,
        "train",
        lambda self, *args, **kwargs: steps.append(
            self._options.num_train_steps
        ),
    )
    run(
        goldens,
        tmp_path,
        do_train=True,
        do_predict=False,
        num_train_epochs=3.0,
        count_windows=count_windows,
    )
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
    assert f"  Num examples = {counted}\n" in caplog.text


def test_evaluation_while_training_writes_scores_and_no_answers(
    goldens, tmp_path
):
    seen = []
    original = answers.QuestionScorer.evaluate

    class Stop(Exception):
        pass

    def evaluate(self, outputs, step):
        original(self, outputs, step)
        seen.append(json.loads((tmp_path / "metrics.json").read_text()))
        assert not (tmp_path / "predictions.json").exists()
        if step == 4:
            raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers.QuestionScorer, "evaluate", evaluate)
        with pytest.raises(Stop):
            run(
                goldens,
                tmp_path,
                bert_config_file=str(goldens / "bert_config.json"),
                do_train=True,
                do_predict=False,
                eval_every_steps=2,
                trim_batches=False,  # one graph is made faster
            )
    assert [metrics["global_step"] for metrics in seen] == [2, 4]
    questions = questions_of(goldens / "squad/dev-v1.1.json")
    for metrics in seen:
        assert metrics["total"] == len(questions)
        assert 0 <= metrics["exact_match"] <= 100
        assert 0 < metrics["f1"] <= 100
    assert list((tmp_path / "eval").glob("events*"))


def test_the_best_threshold_is_found_kept_and_used(
    goldens, tmp_path, same_outputs
):
    found = run(goldens, tmp_path, "v2.0", find_null_threshold=True)
    metrics, saved = found["metrics"], found["null_threshold"]
    threshold = saved["null_score_diff_threshold"]
    assert metrics["null_score_diff_threshold"] == threshold
    assert metrics["f1"] == pytest.approx(metrics["best_f1"])
    assert metrics["f1"] >= metrics["f1_at_threshold_0"]
    for qas_id, odds in found["null_odds"].items():
        assert (found["predictions"][qas_id] == "") == (odds > threshold)
    later = run(goldens, tmp_path, "v2.0")
    assert later["predictions"] == found["predictions"]
    assert later["metrics"]["f1"] == metrics["f1"]
    # One that is given goes before.
    given = run(goldens, tmp_path, "v2.0", null_score_diff_threshold=-1000.0)
    assert set(given["predictions"].values()) == {""}
    assert given["metrics"]["NoAns_f1"] == 100
    assert given["metrics"]["NoAns_exact"] == 100


def test_a_threshold_of_other_weights_is_a_warning(goldens, tmp_path, caplog):
    saved = {"null_score_diff_threshold": -0.5, "global_step": 1, "file": "f"}
    (tmp_path / "null_threshold.json").write_text(json.dumps(saved))
    options = make_options(goldens, tmp_path, "v2.0")
    assert answers.known_threshold(options, 1) == -0.5
    assert "other weights" not in caplog.text
    assert answers.known_threshold(options, 24) == -0.5
    assert (
        "null_threshold.json: --null_score_diff_threshold=-0.5000, found on f "
        "at step 1, but the weights have step 24; give --find_null_threshol"
    ) in caplog.text


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

    def train(self, train_files, evaluate, num_examples):
        evaluate(2)
        evaluate(4)
        return 5

    monkeypatch.setattr(answers.QuestionScorer, "evaluate", evaluate)
    monkeypatch.setattr(Finetuning, "train", train)
    monkeypatch.setattr(Finetuning, "outputs", lambda self, files: {})
    run(
        goldens,
        tmp_path,
        do_train=True,
        do_predict=False,
        eval_every_steps=2,
        save_best=save_best,
    )
    assert seen == expected


def test_questions_without_answers_are_answered_and_not_scored(
    goldens, tmp_path, trimmed
):
    bare = without_answers(
        tmp_path / "bare.json", goldens / "squad/dev-v1.1.json"
    )
    found = run(
        goldens, tmp_path / "a", predict_file=bare, predict_batch_size=3
    )
    assert "metrics" not in found
    assert found["predictions"] == trimmed["predictions"]
    for change, flag in (
        ({"do_train": True, "eval_every_steps": 2}, "--eval_every_steps"),
        (
            {"version_2_with_negative": True, "find_null_threshold": True},
            "--find_null_threshold",
        ),
    ):
        with pytest.raises(
            ValueError, match=f"bare.json has no answers .* leave out {flag}"
        ):
            run(goldens, tmp_path / "c", predict_file=bare, **change)
    assert not list((tmp_path / "c").glob("model.ckpt*"))


def test_files_of_an_earlier_prediction_do_not_stay(
    goldens, tmp_path, monkeypatch, caplog
):
    caplog.set_level("INFO", logger="absl")
    out = tmp_path / "out"
    out.mkdir()
    outputs = {
        "predictions": np.ones((1, 96, 2), np.float32),
        "num_tokens": np.array([96]),
    }

    def predict(name, write_html=False, **fields):
        asked = support.paragraph("one two", support.question(name, **fields))
        data = support.write(tmp_path / f"{name}.json", support.article(asked))
        flags = ("version_2_with_negative", "write_html")
        given = {"predict_file": data.name, **dict.fromkeys(flags, write_html)}
        options = make_options(goldens, out, **given)
        questions.Run(options).scorer.write(outputs, 0)

    def written():
        return {path.name: path.read_bytes() for path in out.glob("*.*")}

    predict("first", write_html=True, answers=[("two", 4)])
    first = written()
    always = {"predictions.json", "nbest_predictions.json"}
    others = {"metrics.json", "null_odds.json", "predictions.html"}
    assert set(first) == always | others
    # A prediction that fails leaves all as it was.
    with monkeypatch.context() as patch:
        patch.setattr(answers.QuestionScorer, "_score", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            predict("second")
    assert written() == first
    predict("second")
    assert set(written()) == always
    for name in others:
        assert (
            f"Removed {out}/{name}, which an earlier prediction" in caplog.text
        )


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
    assert found["task"]["weights"] == "best/model.ckpt-2"
    (tmp_path / "metrics.json").unlink()
    later = run(goldens, tmp_path, **changes)
    assert later["metrics"]["global_step"] == 2
    with pytest.raises(ValueError, match="--save_best=f2: evaluations give"):
        run(goldens, tmp_path / "new", save_best="f2")


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
    steps = sorted(
        int(path.stem.rpartition("-")[2])
        for path in tmp_path.glob("model.ckpt-*.index")
    )
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
    again = run(goldens, out, **bilstm)
    assert again["predictions"] == found["predictions"]
    loaded = modeling.load(str(out))
    assert loaded.kind == "span" and loaded.model.bilstm
    with pytest.raises(ValueError, match="--head 'bilstm' -> 'linear'. Give"):
        run(goldens, out)
