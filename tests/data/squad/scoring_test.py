"""Exact match and F1 by hand, and what must not matter to them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.squad import scoring
from data.squad.examples import Paragraph, SquadExample
from data.squad.predictions import Answer, Prediction


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The  Cat, a dog & AN owl!", "cat dog owl"),
        ("the-end", "theend"),  # punctuation goes first, then articles
        ("theatre", "theatre"),
        (" \n ", ""),
        ("A.", ""),
        ("“Café” – €5", "“café” – €5"),  # only ASCII punctuation
    ],
)
def test_texts_are_normalized_as_by_the_official_script(text, normalized):
    assert scoring.normalize_answer(text) == normalized


@pytest.mark.parametrize(
    ("prediction", "answers", "exact", "f1"),
    [
        ("the Cat!", ["cat"], 1, 1),
        ("black cat", ["cat"], 0, 2 / 3),  # 1 of 2, 1 of 1
        ("black cat", ["dog", "a cat", "white black cat"], 0, 0.8),
        ("cat cat dog", ["cat dog dog dog"], 0, 4 / 7),  # 2 of 3, 2 of 4
        ("cat", ["dog"], 0, 0),
        ("", ["dog"], 0, 0),
    ],
)
@pytest.mark.parametrize("version_2", [False, True])
def test_scores_by_hand(prediction, answers, exact, f1, version_2):
    score = scoring.score_answer(prediction, answers, version_2)
    assert score.exact == exact
    assert score.f1 == pytest.approx(f1, abs=1e-12)


@pytest.mark.parametrize(
    ("prediction", "answers", "version_1", "version_2"),
    [
        # An answer that is an article: equal, but without a word in common.
        ("the", ["The"], (1, 0), (1, 1)),
        ("the", ["the", "cat"], (1, 0), (0, 0)),
        ("", [], (0, 0), (1, 1)),
        ("cat", [], (0, 0), (0, 0)),
    ],
)
def test_the_two_scripts_differ_where_nothing_is_left(
    prediction, answers, version_1, version_2
):
    assert scoring.score_answer(prediction, answers, False) == version_1
    assert scoring.score_answer(prediction, answers, True) == version_2


WORDS = st.lists(st.sampled_from(["cat", "Dog", "ü", "3"]), min_size=1)
TEXT = WORDS.map(" ".join)
NOISE = st.sampled_from(["a", "the", "An", "!", ",", "...", " \t"])


@given(st.lists(TEXT, min_size=1), st.data(), st.booleans())
def test_a_given_answer_scores_1(answers, data, version_2):
    answer = data.draw(st.sampled_from(answers))
    assert scoring.score_answer(answer, answers, version_2) == (1, 1)


@given(TEXT, st.lists(TEXT, min_size=1), st.data(), st.booleans())
def test_articles_case_and_punctuation_do_not_matter(
    prediction, answers, data, version_2
):
    expected = scoring.score_answer(prediction, answers, version_2)
    noisy = " ".join(
        word.swapcase()
        + data.draw(st.sampled_from(["", ".", "'"]))
        + f" {data.draw(NOISE)}"
        for word in prediction.split()
    )
    assert scoring.score_answer(noisy, answers, version_2) == expected


@given(TEXT, TEXT)
def test_f1_is_between_exact_match_and_1_and_symmetric(one, other):
    score = scoring.score_answer(one, [other])
    assert score.exact <= score.f1 <= 1
    assert score.f1 == pytest.approx(scoring.score_answer(other, [one]).f1)
    # More answers never hurt.
    assert scoring.score_answer(one, [other, "x"]).f1 >= score.f1


def test_results_of_1_1_are_percent():
    scorer = scoring.Scorer()
    assert scorer.results() == {}
    assert scorer.add("black cat", ["cat"]) == (0, pytest.approx(2 / 3))
    scorer.add("dog", ["cat", "The dog"])
    scorer.add("dog", [])
    assert scorer.results() == {
        "exact_match": pytest.approx(100 / 3),
        "f1": pytest.approx(500 / 9),
        "total": 3,
    }


def test_results_of_2_0_are_told_apart_by_answerability():
    scorer = scoring.Scorer(version_2_with_negative=True)
    scorer.add("black cat", ["cat"])
    scorer.add("dog", ["cat", "The dog"])
    scorer.add("", ["cat"])
    scorer.add("", [])
    scorer.add("dog", [])
    assert scorer.results() == pytest.approx(
        {
            "exact": 40.0,
            "f1": 100 * (2 / 3 + 2) / 5,
            "total": 5,
            "HasAns_exact": 100 / 3,
            "HasAns_f1": 500 / 9,
            "HasAns_total": 3,
            "NoAns_exact": 50.0,
            "NoAns_f1": 50.0,
            "NoAns_total": 2,
        }
    )


def test_kinds_of_questions_that_are_not_there_are_not_scored():
    scorer = scoring.Scorer(version_2_with_negative=True)
    scorer.add("cat", ["cat"])
    names = ["exact", "f1", "total"]
    assert list(scorer.results()) == [*names, *(f"HasAns_{x}" for x in names)]


def best_thresholds(*questions):
    """Of questions: score difference, best text and right answers."""
    paragraph = Paragraph("", "", [], [])
    return scoring.find_best_thresholds(
        [
            Prediction(
                SquadExample("", "", paragraph, answers=answers),
                text,
                [Answer(text, 1.0, 0.0, 0.0)],
                difference,
            )
            for difference, text, answers in questions
        ]
    )


DIFFERENCE = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0]) | st.floats(-9, 9)
QUESTION = st.tuples(
    DIFFERENCE,
    st.sampled_from(["cat", "dog", "black cat", ""]),
    st.sampled_from([(), ("cat",), ("dog", "the black cat")]),
)


@given(st.lists(QUESTION, min_size=1, max_size=8))
def test_the_best_score_is_had_at_the_threshold_and_nowhere_beaten(questions):
    def scores_at(threshold):
        scorer = scoring.Scorer(version_2_with_negative=True)
        for difference, text, answers in questions:
            scorer.add("" if difference > threshold else text, answers)
        return scorer.results()

    differences = [difference for difference, _, _ in questions]
    found = best_thresholds(*questions)
    for name in scoring.QuestionScore._fields:
        best = max(
            scores_at(threshold)[name]
            for threshold in (-np.inf, *differences, np.inf)
        )
        threshold = found[f"best_{name}_thresh"]
        assert found[f"best_{name}"] == pytest.approx(best)
        assert scores_at(threshold)[name] == pytest.approx(best)


@given(st.lists(QUESTION, min_size=1, max_size=8, unique_by=lambda q: q[0]))
def test_without_ties_the_best_scores_are_the_official_script_s(questions):
    """The script's loop: from no question answered to all."""
    found = best_thresholds(*questions)
    for i, name in enumerate(scoring.QuestionScore._fields):
        score = best = sum(not answers for _, _, answers in questions)
        best_threshold = None  # the script says 0 here
        for difference, text, answers in sorted(questions):
            if answers:
                score += scoring.score_answer(text, answers, True)[i]
            elif text:
                score -= 1
            if score > best + 1e-9:
                best, best_threshold = score, difference
        assert found[f"best_{name}"] == pytest.approx(
            100 * best / len(questions)
        )
        threshold = found[f"best_{name}_thresh"]
        if best_threshold is None:
            assert threshold < min(difference for difference, _, _ in questions)
        else:
            assert threshold == best_threshold
