"""Predictor: the texts that it takes. tests/python compares its answers."""

import pytest

from tests.support import rounding
from tests.support.serving_support import finished_run
from training.export.predictor import Predictor


@pytest.fixture(scope="module")
def pairs(goldens, tmp_path_factory):
    """The predictor of a finished run."""
    folder = tmp_path_factory.mktemp("pairs")
    finished_run(goldens, folder, "classification", is_pair=True)
    return Predictor.load(str(folder))


@pytest.mark.parametrize(
    "text", ["a", ("a",), ("a", "b", "c"), (1, "b"), ("a", None), ("a", ["b"])]
)
def test_texts_of_another_form_are_refused(pairs, text):
    with pytest.raises(ValueError, match=r"texts\[1\] is .*, expected text_a"):
        pairs.predict([("a", "b"), text])


def test_a_lone_text_is_no_list_of_letters(pairs):
    with pytest.raises(ValueError, match="'a text', a str, expected a list"):
        pairs.predict("a text")
    with pytest.raises(ValueError, match="batch_size is 0, expected 1, 2"):
        pairs.predict([("a", "b")], batch_size=0)
    assert pairs.predict([]) == []


def test_half_a_character_is_none(pairs):
    odd, plain = pairs.predict([("a \ud800b", "c"), ("a b", "c")])
    assert odd["score"] == pytest.approx(plain["score"], abs=rounding.ONE_SUM)
