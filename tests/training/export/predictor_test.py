"""Predictor: texts in, answers out, in any order and of any folder."""

import pytest

from tests.support import rounding
from tests.support.serving_support import (
    TEXTS,
    close,
    examples_of,
    export,
    finished_run,
    predictions_of,
    rows_of,
)
from training.export.predictor import Predictor


@pytest.fixture(scope="module")
def pairs(goldens, tmp_path_factory):
    """A finished folder of pairs, its model and a predictor."""
    folder = tmp_path_factory.mktemp("pairs")
    model = finished_run(goldens, folder, "classification", is_pair=True)
    return folder, model, Predictor.load(str(folder))


def test_answers_come_in_the_order_of_the_texts(pairs, goldens):
    _, model, predictor = pairs
    examples = examples_of("classification", True, 11)
    wanted = predictions_of(model, rows_of(goldens, "classification", examples))
    texts = [(e.text_a, e.text_b) for e in examples]
    answers = predictor.predict(texts, batch_size=4)
    for answer, row in zip(answers, wanted, strict=True):
        close(answer["probabilities"], row)
        assert answer["label"] == ("no", "yes")[row.argmax()]
        assert answer["labels"] == ["no", "yes"]
    assert predictor.predict([]) == []


@pytest.mark.all
def test_an_export_and_its_version_answer_alike(pairs):
    folder, _, predictor = pairs
    texts = [(TEXTS[0], TEXTS[3]), (TEXTS[2], "")]
    version = export(folder)
    wanted = predictor.predict(texts)
    for place in f"{folder}/export", version:
        got = Predictor.load(place).predict(texts)
        for answer, expected in zip(got, wanted, strict=True):
            assert answer.keys() == expected.keys()
            assert answer["label"] == expected["label"]
            assert answer["score"] == pytest.approx(
                expected["score"], abs=rounding.ONE_SUM
            )


@pytest.mark.parametrize(
    "text", ["a", ("a",), ("a", "b", "c"), (1, "b"), ("a", None), ("a", ["b"])]
)
def test_texts_of_another_form_are_refused(pairs, text):
    message = r"texts\[1\] is .*, expected text_a and text_b."
    with pytest.raises(ValueError, match=message):
        pairs[2].predict([("a", "b"), text])


@pytest.mark.parametrize(
    ("texts", "batch_size", "message"),
    [
        ("a text", 32, "texts is 'a text', a str, expected a list"),
        ({"a": ["b"]}, 32, r"a dict, expected a list: .* texts\['text'\]"),
        ([("a", "b")], 0, "batch_size is 0, expected 1 or more"),
    ],
)
def test_a_lone_text_is_no_list_of_letters(pairs, texts, batch_size, message):
    with pytest.raises(ValueError, match=message):
        pairs[2].predict(texts, batch_size)


def test_half_a_character_is_none(pairs):
    odd, plain = pairs[2].predict([("a \ud800b", "c"), ("a b", "c")])
    assert odd["score"] == pytest.approx(plain["score"], abs=rounding.ONE_SUM)
