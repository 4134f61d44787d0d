"""Words with labels become entities as conlleval counts them."""

import numpy as np
import pytest
from seqeval.metrics.sequence_labeling import get_entities

from data.entities import entities_of

TEXT = "Anna Caf\u00e9 Li left  \u65b0\u5317 York"
STARTS, ENDS = [0, 5, 10, 13, 19, 22], [4, 9, 12, 17, 21, 26]


def found(labels, scores=(0.5, 0.7, 0.9, 1.0, 0.6, 0.8)):
    count = len(labels)
    return entities_of(
        TEXT, STARTS[:count], ENDS[:count], labels, scores[:count]
    )


def test_words_are_joined_with_places_and_mean_score():
    anna, york = found(["B-PER", "I-PER", "I-PER", "O", "B-LOC", "I-LOC"])
    assert anna.pop("score") == pytest.approx(0.7)
    text = "Anna Caf\u00e9 Li"
    assert anna == {"text": text, "label": "PER", "start": 0, "end": 12}
    assert york["text"] == "\u65b0\u5317 York" == TEXT[19:26]
    assert (york["label"], york["score"]) == ("LOC", pytest.approx(0.7))


def test_the_spans_are_those_of_seqeval():
    rng = np.random.default_rng(0)
    choices = ["O", *(f"{p}-{t}" for p in "BIES" for t in ("PER", "LOC"))]
    starts, ends = range(0, 40, 2), range(1, 41, 2)
    for _ in range(300):
        labels = rng.choice(choices, 20).tolist()
        ours = [
            (x["label"], x["start"] // 2, x["end"] // 2)
            for x in entities_of("x " * 20, starts, ends, labels, [1.0] * 20)
        ]
        assert ours == get_entities(labels)


def test_other_labels_are_words_of_their_own():
    ours = found(["NOUN", "NOUN", "O", "VERB"])
    assert [x["label"] for x in ours] == ["NOUN", "NOUN", "VERB"]
    assert [x["text"] for x in ours] == ["Anna", "Caf\u00e9", "left"]
    assert found([]) == []
