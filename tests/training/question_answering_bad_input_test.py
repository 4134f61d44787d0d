"""Bad input of run_squad.py: one clear error, or a warning."""

import pytest

from tests.data.squad import support
from tests.training.squad_support import make_options, questions_of, run
from training.runs import questions
from training.start.found_files import read_files


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "Expecting property name"),
        ("[]", "no JSON object"),
        ("{}", "no null_score_diff_threshold"),
        ('{"null_score_diff_threshold": "a"}', "null_.* is 'a', expected a nu"),
    ],
)
def test_a_damaged_threshold_is_an_error(goldens, tmp_path, content, reason):
    (tmp_path / "null_threshold.json").write_text(content)
    message = f"null_threshold.json is damaged: {reason}.*; remove it, or pa"
    with pytest.raises(ValueError, match=message):
        run(goldens, tmp_path, "v2.0", do_train=True)
    assert not list(tmp_path.glob("*.tf_record"))  # it is found at once


@pytest.mark.parametrize("is_training", [False, True])
def test_texts_without_a_word_are_refused(goldens, tmp_path, is_training):
    asked = support.question("1", answers=[], is_impossible=True)
    empty = support.write(
        tmp_path / "empty.json", support.article(support.paragraph(" ", asked))
    )
    changes = {"train_file" if is_training else "predict_file": empty.name}
    message = "empty.json: no paragraph has a wordpiece; give a file with te"
    with pytest.raises(ValueError, match=message):
        run(goldens, tmp_path / "out", "v2.0", do_train=is_training, **changes)


def test_a_vocabulary_of_the_other_case_is_a_warning(goldens, tmp_path, caplog):
    options = make_options(goldens, tmp_path, init_checkpoint=None)
    read_files(options)
    assert "wordpiece with a capital" not in caplog.text
    read_files(options.replace(do_lower_case=False))
    assert "vocab.txt has no wordpiece with a capital" in caplog.text


def test_questions_of_2_0_asked_as_1_1_are_a_warning(goldens, tmp_path, caplog):
    found = run(goldens, tmp_path, "v2.0", version_2_with_negative=False)
    gold = questions_of(goldens / "squad/dev-v2.0.json")
    unanswerable = sum(not question["answers"] for question in gold.values())
    assert 0 < unanswerable < len(gold)
    assert f"has {unanswerable} unanswerable questions: as in" in caplog.text
    assert found["metrics"]["total"] == len(gold) - unanswerable
    assert all(found["predictions"].values())


def test_a_stride_without_overlap_is_a_warning(goldens, tmp_path, caplog):
    options = make_options(goldens, tmp_path)
    questions.Run(options)
    assert "do not overlap" not in caplog.text
    questions.Run(options.replace(doc_stride=77))
    assert "--doc_stride=77: windows with the longest questi" in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_predict": False}, "At least one of `do_train` or `do_predict` "),
        (
            {"do_train": True, "do_predict": False, "write_html": True},
            "--write_html needs --do_predict; give that, too, or drop",
        ),
        ({"predict_file": None}, "If `do_predict` is True, then `predict_file"),
        (
            {
                "do_train": True,
                "do_predict": False,
                "predict_file": None,
                "eval_every_steps": 2,
            },
            "If `eval_every_steps` is True, then `predict_file` must be spec",
        ),
        ({"tfds": "squad"}, "--tfds=squad contradicts --train_file="),
        (
            {
                "find_null_threshold": True,
                "version_2_with_negative": True,
                "null_score_diff_threshold": 1.5,
            },
            "--find_null_threshold and --null_score_diff_threshold=1.5 excl",
        ),
    ],
)
def test_flags_that_do_not_fit_each_other(goldens, tmp_path, changes, message):
    with pytest.raises(ValueError) as error:
        make_options(goldens, tmp_path, **changes)
    assert str(error.value).startswith(message)
