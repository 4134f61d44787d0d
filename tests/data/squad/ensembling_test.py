"""Several runs averaged, by hand."""

import pytest

from data.squad.ensembling import average_nbest, average_odds, choose_texts


def answer(text, probability, start_logit=0.0, end_logit=0.0):
    return {
        "text": text,
        "probability": probability,
        "start_logit": start_logit,
        "end_logit": end_logit,
    }


def test_probabilities_are_averaged_for_each_text():
    first = {"1": [answer("cat", 0.6, 3.0, 1.0), answer("dog", 0.4, 2.0, 2.0)]}
    second = {"1": [answer("owl", 0.5), answer("dog", 0.5, 4.0, 1.0)]}
    third = {"1": [answer("dog", 0.3, 0.0, 0.0)]}
    averaged = average_nbest([first, second, third])
    assert list(averaged) == ["1"]
    assert averaged["1"] == [
        answer("dog", pytest.approx(0.4), 2.0, 1.0),
        answer("cat", pytest.approx(0.2), 3.0, 1.0),
        answer("owl", pytest.approx(0.5 / 3)),
    ]
    assert choose_texts(averaged) == {"1": "dog"}


def test_one_run_stays_as_it_is():
    nbest = {"1": [answer("cat", 0.6, 3.0), answer("", 0.4)], "0": []}
    assert average_nbest([nbest]) == nbest
    assert list(average_nbest([nbest])) == ["1", "0"]


def test_equal_answers_stay_in_the_order_of_the_runs():
    runs = [{"1": [answer(text, 0.5)]} for text in ("b", "a", "c")]
    texts = [one["text"] for one in average_nbest(runs)["1"]]
    assert texts == ["b", "a", "c"]


def test_null_is_the_answer_if_the_mean_difference_is_greater():
    nbest = {
        "1": [answer("", 0.9), answer("cat", 0.1)],
        "2": [answer("dog", 0.9), answer("", 0.1)],
        "3": [answer("", 1.0)],
    }
    odds = average_odds(
        [{"1": 0.5, "2": 2.0, "3": -1.0}, {"1": 0.5, "2": 0.0, "3": -1.0}]
    )
    assert odds == {"1": 0.5, "2": 1.0, "3": -1.0}
    assert choose_texts(nbest, odds, 0.5) == {"1": "cat", "2": "", "3": ""}
    assert choose_texts(nbest, odds, 1.0) == {"1": "cat", "2": "dog", "3": ""}


@pytest.mark.parametrize(
    ("average", "name"),
    [(average_nbest, "nbest_predictions"), (average_odds, "null_odds")],
)
def test_runs_that_do_not_fit_are_an_error(average, name):
    with pytest.raises(ValueError, match=f"there is no {name}.json to average"):
        average([])
    with pytest.raises(
        ValueError,
        match=f"{name}.json of run 1 and of run 3 differ in 2 questions, such "
        "as 'a'; give runs on the same file",
    ):
        average([{"a": 1}, {"a": 1}, {"b": 1}])
