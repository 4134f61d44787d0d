"""Scores to answers: the original's, ties included."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.squad.answers import predict
from data.squad.examples import Paragraph, SquadExample, read_examples
from data.squad.predictions import write_files
from data.squad.window_options import AnswerOptions, WindowOptions
from data.squad.windows import convert_examples
from tests.data.squad import reference
from tests.data.squad.support import (
    GOLDEN,
    WORD,
    question,
    read_golden,
    write_paragraph,
)

SMALL = WindowOptions(max_seq_length=16, doc_stride=5, max_query_length=4)
FILES = ("predictions", "nbest_predictions", "null_odds")


@pytest.mark.parametrize(
    ("version", "threshold", "folder"),
    [
        ("1.1", 0.0, "post_v1.1"),
        ("2.0", 0.0, "post_v2.0"),
        ("2.0", -26.9, "post_v2.0_threshold_minus_26.9"),
    ],
)
def test_files_equal_the_original_s(
    goldens, tokenizer, tmp_path, version, threshold, folder
):
    with np.load(goldens / f"squad/post_v{version}/logits.npz") as scores:
        start_logits, end_logits = scores["start_logits"], scores["end_logits"]
    with_null = version == "2.0"
    examples = read_examples(read_golden(goldens, f"dev-v{version}"))
    predictions = list(
        predict(
            list(convert_examples(examples, tokenizer, GOLDEN)),
            np.stack([start_logits, end_logits], axis=2),
            options=AnswerOptions(20, 30, with_null, threshold),
        )
    )
    for prediction in predictions:
        assert prediction.text_at(threshold) == prediction.text
    write_files(str(tmp_path), predictions, with_null)
    for name in FILES if with_null else FILES[:2]:
        expected = goldens / f"squad/{folder}/{name}.json"
        if not expected.exists():  # those of any threshold
            expected = goldens / f"squad/post_v2.0/{name}.json"
        text = (tmp_path / f"{name}.json").read_text()
        made = json.loads(text)
        assert text == json.dumps(made, indent=4) + "\n"
        # To the last digit on the machine they were made on; math.exp may
        # differ in it elsewhere.
        expected = json.loads(expected.read_text())
        assert list(made) == list(expected)
        for qas_id, value in expected.items():
            assert_near(made[qas_id], value)
    assert (tmp_path / "null_odds.json").exists() == with_null


def assert_near(made, expected):
    """Texts exactly, numbers to 1e-6."""
    if not isinstance(expected, list):
        assert made == pytest.approx(expected, abs=1e-6)
        return
    for one, other in zip(made, expected, strict=True):
        assert list(one) == list(other)
        assert one["text"] == other["text"]
        for name in ("probability", "start_logit", "end_logit"):
            assert one[name] == pytest.approx(other[name], abs=1e-6)


# Few values: nearly all scores tie.
SCORE = st.sampled_from([-1.5, -1.0, -0.0, 0.0, 0.5, 1.0])


@st.composite
def scored_questions(draw):
    """Questions, each with the words of its paragraph."""
    texts = draw(st.lists(st.lists(WORD, max_size=25), min_size=1, max_size=3))
    questions = []
    for words in texts:
        for _ in range(draw(st.integers(1, 2))):
            asked = draw(st.lists(WORD, max_size=3))
            questions.append((" ".join(asked), words))
    return questions


def examples_of(questions):
    """Examples that share the paragraphs with equal words."""
    examples, paragraphs = [], {}
    for number, (asked, words) in enumerate(questions):
        key = tuple(words)
        offsets = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()
        paragraphs.setdefault(
            key, Paragraph("", " ".join(words), words, offsets[:-1])
        )
        examples.append(SquadExample(str(number), asked, paragraphs[key]))
    return examples


@given(
    questions=scored_questions(),
    values=st.lists(SCORE, min_size=1, max_size=6),
    seed=st.integers(0, 1000),
    n_best=st.sampled_from([1, 2, 3, 20, 400]),
    max_length=st.integers(1, 8),
    with_null=st.booleans(),
    threshold=st.sampled_from([-1.0, 0.0, 0.5]),
)
def test_answers_equal_plain_rules_with_many_ties(
    tokenizer, questions, values, seed, n_best, max_length, with_null, threshold
):
    examples = examples_of(questions)
    features = [
        reference.windows(
            asked, words, tokenizer, length=16, stride=5, max_query=4
        )
        for asked, words in questions
    ]
    num_windows = sum(map(len, features))
    rng = np.random.default_rng(seed)
    scores = rng.choice(np.array(values, np.float32), (2, num_windows, 16))
    found = predict(
        list(convert_examples(examples, tokenizer, SMALL)),
        np.stack(scores, axis=2),
        options=AnswerOptions(n_best, max_length, with_null, threshold),
    )
    row = 0
    for example, windows, made in zip(examples, features, found, strict=True):
        rows = slice(row, row + len(windows))
        row += len(windows)
        text, answers, difference = reference.predict(
            example.paragraph.doc_tokens,
            windows,
            list(zip(*(one[rows].tolist() for one in scores), strict=True)),
            n_best=n_best,
            max_length=max_length,
            do_lower_case=True,
            with_null=with_null,
            threshold=threshold,
        )
        assert made.text == text == made.answer.text
        assert [answer[:4] for answer in made.answers] == answers
        if difference is not None:
            assert made.score_diff == difference
        for answer in made.answers:
            assert_place(answer, example)


def assert_place(answer, example):
    """An answer's characters are its text except for white space."""
    if answer.start is None:
        assert answer.text in ("", "empty") and answer.end is None
        return
    part = example.paragraph.context[answer.start : answer.end]
    assert " ".join(reference.split_words(part)) == answer.text


def ask(folder, tokenizer, context, **options):
    """Asks "a"; only [CLS] and the question have good scores as an answer."""
    data = write_paragraph(folder / "a.json", context, question("1", "a"))
    asked = list(convert_examples(read_examples(data), tokenizer, SMALL))
    scores = np.array([[5.0, 4.0] + [-9.0] * 14], np.float32)
    scores = np.stack([scores, scores], axis=2)
    return list(predict(asked, scores, options=AnswerOptions(**options)))


def test_without_a_candidate_there_is_no_answer(tmp_path, tokenizer):
    # The original stops with an AttributeError.
    asked, options = (tmp_path, tokenizer, "one two three"), {"n_best_size": 2}
    (found,) = ask(*asked, version_2_with_negative=True, **options)
    assert found.text == found.best_text == ""
    assert found.answers == [("", 1.0, 5.0, 5.0, None, None)]
    assert found.score_diff == 1_000_000.0
    assert found.text_at(100.0) == ""
    # Version 1.1 says "empty", as the original.
    (found,) = ask(*asked, **options)
    assert found.answers == [("empty", 1.0, 0.0, 0.0, None, None)]
    assert found.text == found.text_at(-1.0) == "empty"


@pytest.mark.parametrize(
    ("num_windows", "dtype", "value", "message"),
    [
        (3, "float32", 0, "float32 scores of 3 windows, expected float32 of 2"),
        (1, "float32", 0, "float32 scores of 1 windows, expected float32 of 2"),
        (2, "float64", 0, "float64 scores of 2 windows, .*; score the"),
        (2, "float32", np.nan, "window 0 has a score that is not finite"),
    ],
)
def test_scores_that_do_not_fit_are_an_error(
    tokenizer, num_windows, dtype, value, message
):
    words = Paragraph("", "one two", ["one", "two"], [0, 4])
    examples = [SquadExample("1", "a", words), SquadExample("2", "b", words)]
    asked = list(convert_examples(examples, tokenizer, SMALL))
    scores = np.full((num_windows, 16, 2), value, dtype)
    with pytest.raises(ValueError, match=message):
        list(predict(asked, scores, options=AnswerOptions()))


def test_an_error_leaves_the_files_that_were_there(tmp_path, tokenizer):
    folder = tmp_path / "out"
    write_files(str(folder), [], False)
    (found,) = ask(tmp_path, tokenizer, "one two")

    def predictions():
        yield found
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_files(str(folder), predictions(), False)
    names = ["nbest_predictions.json", "predictions.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    for name in names:  # without questions they are empty objects
        assert (folder / name).read_text() == "{}\n"
