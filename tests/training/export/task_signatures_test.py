"""The functions of an export say what the programs' own road says."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from data.finetuning.feature_options import feature_specs
from data.finetuning.tagging import words_of_rows
from data.records.feature_spec import encode_examples
from tests.support import rounding
from tests.support.serving_support import (
    INPUTS,
    LABELS,
    LENGTH,
    TEXTS,
    examples_of,
    finished_run,
    inputs_of,
    predictions_of,
    requests_of,
    rows_of,
)
from tests.support.tiers import rare
from training.export import saved_model
from training.export.predictor import Predictor


@pytest.fixture(scope="module")
def loaded(goldens, tmp_path_factory):
    """Kind, is_pair -> the model, and its functions; each is made once."""

    @functools.cache
    def load(kind, is_pair):
        folder = tmp_path_factory.mktemp(kind)
        model = finished_run(goldens, folder, kind, is_pair)
        return model, saved_model.load(str(folder)).signatures

    return load


@pytest.fixture(
    scope="module",
    params=[
        ("classification", True),
        rare(("regression", True)),
        ("multilabel", False),
        rare(("choice", False)),
        ("tagging", False),
    ],
    ids=lambda k: k[0],
)
def served(request, loaded):
    """Kind, is_pair, the model, and its functions loaded from a folder."""
    return *request.param, *loaded(*request.param)


def values_of(outputs):
    key = "probabilities" if "probabilities" in outputs else "score"
    values = outputs[key].numpy()
    return values if key == "probabilities" else values[:, np.newaxis]


@pytest.mark.parametrize("count", [rare(1), 33])
def test_texts_ids_and_records_give_the_predictions(served, goldens, count):
    kind, is_pair, model, signatures = served
    examples = examples_of(kind, is_pair, count)
    rows = rows_of(goldens, kind, examples)
    wanted = predictions_of(model, rows)
    ids, records = requests_of(kind, rows)
    rows_answers = [
        signatures["serving_default"](**ids),
        signatures["serve_ids"](ids["input_ids"]),
        signatures["serve_examples"](records),
    ]
    mask = np.ones(wanted.shape)
    if kind == "tagging":
        mask = rows["input_mask"][:, :, np.newaxis]
    for answer in rows_answers:
        rounding.assert_equal(values_of(answer), wanted * mask)
    inputs = {k: tf.constant(v) for k, v in inputs_of(kind, examples).items()}
    if kind != "tagging":
        answer = signatures["serve_text"](**inputs)
        rounding.assert_equal(values_of(answer), wanted)
        return
    answer = signatures["serve_words"](**inputs)
    lengths = [len(example.words) for example in examples]
    assert answer["num_words"].numpy().tolist() == lengths
    by_sentence = words_of_rows(wanted, rows["label_mask"], lengths)
    for got, sentence in zip(values_of(answer), by_sentence, strict=True):
        rounding.assert_equal(got[: len(sentence)], sentence)
        assert not got[len(sentence) :].any()


def test_labels_travel_inside(served, goldens):
    kind, is_pair, model, signatures = served
    rows = rows_of(goldens, kind, examples_of(kind, is_pair, 6))
    answer = signatures["serve_examples"](requests_of(kind, rows)[1])
    wanted = predictions_of(model, rows)
    if kind == "regression":
        assert list(answer) == ["score"]
        return
    labels = LABELS[kind]
    assert answer["labels"].shape == (len(wanted), len(labels))
    assert [x.decode() for x in answer["labels"][0].numpy()] == list(labels)
    got = np.vectorize(bytes.decode)(answer["label"].numpy())
    if kind == "multilabel":
        chosen = ["; ".join(np.array(labels)[row > 0.5]) for row in wanted]
        assert got.tolist() == chosen
        assert len(set(chosen)) > 1
        assert "score" not in answer
        return
    best = wanted.argmax(-1)
    mask = rows["label_mask"] if kind == "tagging" else np.ones(len(best))
    here = mask == 1
    np.testing.assert_array_equal(got[here], np.array(labels)[best][here])
    rounding.assert_equal(answer["score"].numpy()[here], wanted.max(-1)[here])
    if kind == "choice":
        np.testing.assert_array_equal(answer["choice"], best)


def test_no_client_gives_labels(served, goldens):
    kind, is_pair, model, signatures = served
    specs = feature_specs(kind, LENGTH, model.num_labels)
    specs = [spec for spec in specs if spec.name in INPUTS]
    rows = rows_of(goldens, kind, examples_of(kind, is_pair, 2))
    signatures["serve_examples"](encode_examples(specs, rows))
    asked = {
        spec.name
        for function in signatures.values()
        for spec in tf.nest.flatten(
            function.get_concrete_function().structured_input_signature
        )
    }
    texts = {"text", "text_a", "text_b", "context", "choices", "words"}
    assert asked <= {*INPUTS, "examples", *texts}


@pytest.fixture(scope="module")
def tagger(loaded):
    return loaded("tagging", False)[1]


def test_tagged_texts_come_back_as_words_with_places(tagger):
    texts = [*TEXTS, "bad \ud800".encode("utf-8", "surrogatepass") + b" man"]
    answer = tagger["serve_text"](tf.constant(texts))
    columns = {name: x.numpy() for name, x in answer.items()}
    sizes = columns["num_words"]
    shown = [
        [word.decode() for word in row[:size]]
        for row, size in zip(columns["words"], sizes, strict=True)
    ]
    assert shown[0] == "The man went to the store .".split()
    assert shown[1] == shown[4] == []
    assert len(shown[2]) == 120  # of several rows
    assert shown[3] == ["Caf\u00e9", "\u4e2d", "\u6587", "unaffable", "!"]
    assert shown[6] == ["bad", "man"]
    for text, words, starts, ends in zip(
        TEXTS, shown, columns["starts"], columns["ends"], strict=False
    ):
        spans = zip(starts[: len(words)], ends[: len(words)], strict=True)
        assert [text[start:end] for start, end in spans] == words
    # The same words, given as such.
    most = max(map(len, shown))
    padded = [words + [""] * (most - len(words)) for words in shown]
    again = tagger["serve_words"](tf.constant(padded))
    for name in "probabilities", "label", "num_words":
        np.testing.assert_array_equal(again[name], columns[name])


def test_records_of_words_have_outputs_of_a_static_length(tagger):
    served = tagger["serve_examples"].get_concrete_function()
    outputs = served.structured_outputs
    assert outputs["probabilities"].shape[:2].as_list() == [None, LENGTH]
    assert outputs["label"].shape.as_list() == [None, LENGTH]


def test_a_predictor_takes_the_words_off_their_padding(tagger):
    short, empty, long = Predictor(tagger).predict(["the man", "", TEXTS[2]])
    assert short["words"] == ["the", "man"]
    assert (short["starts"], short["ends"]) == ([0, 4], [3, 7])
    assert len(short["label"]) == len(short["probabilities"]) == 2
    assert empty["words"] == empty["label"] == []
    assert len(long["words"]) == len(long["score"]) == 120
    assert short["labels"] == ["O", "B-PER", "I-PER"]
    # Also of a batch without any word.
    answers = Predictor(tagger).predict(["", "\u200b", " "])
    assert [x["words"] + x["label"] for x in answers] == [[]] * 3


def test_choices_of_another_form_are_refused(loaded):
    predictor = Predictor(loaded("choice", False)[1])
    for choices in "abc", ["a", "b"], ["a", "b", None]:
        with pytest.raises(ValueError, match=r"choices \(3 strings\)\.$"):
            predictor.predict([("a", choices)])


@pytest.fixture(scope="module")
def classifier(loaded):
    return loaded("classification", True)[1]


def test_rows_may_be_of_any_length(classifier, goldens):
    examples = examples_of("classification", False, 6)
    rows = rows_of(goldens, "classification", examples)
    short = {name: rows[name].astype("int32") for name in INPUTS}
    # More than the model has: padding alone.
    long = {name: np.pad(x, [(0, 0), (0, 200)]) for name, x in short.items()}
    for name, x in classifier["serving_default"](**short).items():
        got = classifier["serving_default"](**long)[name].numpy()
        np.testing.assert_array_equal(got, x.numpy())


ONES, LONG = np.ones((2, 4)), np.ones((1, 129))
SHAPE = "input_mask must have the shape of input_ids,"


@pytest.mark.parametrize(
    ("ids", "mask", "segments", "message"),
    [
        (LONG, LONG, LONG, "input_ids has .* over 128 .*shorten"),
        ([[1200]], [[1]], [[0]], "input_ids must be 0 to 1199"),
        ([[1]], [[1]], [[2]], "segment_ids must be 0 to 1, as"),
        (ONES, np.ones((2, 3)), ONES, SHAPE),
        (ONES, np.ones((1, 4)), ONES, SHAPE),
    ],
)
def test_rows_that_the_model_cannot_take_are_refused(
    classifier, ids, mask, segments, message
):
    rows = dict(zip(INPUTS, (ids, mask, segments), strict=True))
    rows = {name: np.array(x, "int32") for name, x in rows.items()}
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        classifier["serving_default"](**rows)
