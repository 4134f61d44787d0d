"""Scores and answers of questions: padding, thresholds, files."""

import json

import numpy as np
import pytest

from tests.data.squad import support
from tests.support.run_files import contents_of
from tests.training.finetuning_support import Stopped
from tests.training.squad_support import make_options, questions_of, run
from training.finetuning import answers
from training.runs import questions


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


@pytest.mark.all
def test_evaluation_while_training_writes_scores_and_no_answers(
    goldens, tmp_path, monkeypatch
):
    seen = []
    original = answers.QuestionScorer.evaluate

    def evaluate(self, outputs, step):
        original(self, outputs, step)
        seen.append(json.loads((tmp_path / "metrics.json").read_text()))
        assert not (tmp_path / "predictions.json").exists()
        if step == 4:
            raise Stopped

    monkeypatch.setattr(answers.QuestionScorer, "evaluate", evaluate)
    with pytest.raises(Stopped):
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


def test_the_best_threshold_is_found_and_used(
    goldens, tmp_path, same_outputs, caplog
):
    found = run(goldens, tmp_path, "v2.0", find_null_threshold=True)
    metrics, saved = found["metrics"], found["null_threshold"]
    threshold = saved["null_score_diff_threshold"]
    assert metrics["null_score_diff_threshold"] == threshold
    assert metrics["f1"] >= metrics["f1_at_threshold_0"]
    later = run(goldens, tmp_path, "v2.0")
    assert later["predictions"] == found["predictions"]
    assert later["metrics"]["f1"] == metrics["f1"]
    assert "with other" not in caplog.text
    run(goldens, tmp_path, "v2.0", max_answer_length=1)
    assert "or flags (max_answer_length 30 -> 1); give" in caplog.text
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
    assert "with other" not in caplog.text
    assert answers.known_threshold(options, 24) == -0.5
    assert "with other weights or flags (global_step 1 -> 24)" in caplog.text
    # A run that will find one is scored alike before and after.
    finds = options.replace(find_null_threshold=True)
    assert answers.known_threshold(finds, 24) == 0.0


def test_questions_without_answers_are_not_scored(
    goldens, tmp_path, answered_questions
):
    def unanswered(fields):
        return {name: x for name, x in fields.items() if name != "answers"}

    text = (goldens / "squad/dev-v1.1.json").read_text("utf-8")
    content = json.loads(text, object_hook=unanswered)
    bare = str(tmp_path / "bare.json")
    (tmp_path / "bare.json").write_text(json.dumps(content), "utf-8")
    found = run(
        goldens, tmp_path / "a", predict_file=bare, predict_batch_size=3
    )
    assert "metrics" not in found
    answered = (answered_questions / "predictions.json").read_text("utf-8")
    assert found["predictions"] == json.loads(answered)
    for change, flag in (
        ({"do_train": True, "eval_every_steps": 2}, "--eval_every_steps"),
        (
            {"version_2_with_negative": True, "find_null_threshold": True},
            "--find_null_threshold",
        ),
    ):
        message = f"bare.json has no answers .* leave out {flag}"
        with pytest.raises(ValueError, match=message):
            run(goldens, tmp_path / "c", predict_file=bare, **change)
    assert not list((tmp_path / "c").glob("model.ckpt*"))


def test_files_of_an_earlier_prediction_do_not_stay(
    goldens, tmp_path, monkeypatch, logged
):
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

    predict("first", write_html=True, answers=[("two", 4)])
    first = contents_of(out)
    always = {"predictions.json", "nbest_predictions.json"}
    others = {"metrics.json", "null_odds.json", "predictions.html"}
    assert set(first) == always | others
    # A prediction that fails leaves all as it was.
    with monkeypatch.context() as patch:
        patch.setattr(answers.QuestionScorer, "_score", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            predict("second")
    assert contents_of(out) == first
    predict("second")
    assert set(contents_of(out)) == always
    for name in others:
        assert f"Removed {out}/{name}, which an earlier" in logged.text
