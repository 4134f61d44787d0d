"""bert.load: what a model or a folder cannot answer."""

import functools
import math
import pathlib

import pytest

import bert
from modeling import SpanModel, TaskModel
from tests.support.model_folder_support import write_with
from tests.support.serving_support import finished_run


class Frame(dict):
    """What tells a pandas DataFrame from a list: iterated, it gives names."""

    columns = ("id", "text")


BAD_TEXTS = [
    ({"a": ["b"]}, r"texts is \{'a': .*, a dict, expected .* texts\['text'\]"),
    (Frame(), r"a Frame, expected a list: .* such as texts\['text'\]"),
    ("a text", "texts is 'a text', a str, expected a list: put"),
    (b"a", "texts is b'a', a bytes, expected a list"),
    (None, "texts is None, a NoneType, expected a list"),
    ([], "texts is an empty list, expected one text at least"),
]


@pytest.mark.parametrize(("texts", "message"), BAD_TEXTS)
@pytest.mark.parametrize("method", ["encode", "encode_words", "fill_mask"])
def test_what_is_no_list_of_texts_is_refused(
    golden_model, method, texts, message
):
    with pytest.raises(ValueError, match=message):
        getattr(golden_model, method)(texts)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.encode(["a", math.nan]), r"texts\[1\] is nan, expected"),
        (lambda m: m.encode([("a", "b", "c")]), r"texts\[0\] is \('a', 'b', "),
        (lambda m: m.encode(["a"], pooling="none"), "call encode_words"),
        (lambda m: m.encode(["a"], pooling="sum"), "--pooling=sum; it must be"),
        (lambda m: m.encode(["a"], layers=(3,)), "there is no layer 3; the mo"),
        (lambda m: m.encode(["a"], layers=(0.0,)), "there is no layer 0.0; t"),
        (lambda m: m.encode(["a"], layers=-1), "layers is -1, expected a li"),
        (lambda m: m.attention("a", 0.0), "there is no layer 0.0; the model"),
        (
            lambda m: m.encode(["a"], layers=(-1, 0), layer_mix="separate"),
            "a vector of each layer; give concat or sum",
        ),
        (lambda m: m.encode(["a"], batch_size=0), "batch_size is 0, expected"),
        (lambda m: m.encode(["a"], batch_size=2.0), "batch_size is 2.0, expec"),
        (lambda m: m.fill_mask(["a [MASK]", 3]), r"texts\[1\] is 3, expected"),
        (lambda m: m.fill_mask(["[MASK]", "b"]), r"texts\[1\] is 'b' without"),
        (lambda m: m.fill_mask(["[MASK]"], top_k=0), "top_k is 0, expected 1"),
        (lambda m: m.fill_mask(["[MASK]"], top_k=2.0), "top_k is 2.0, expect"),
        (lambda m: m.fill_mask(["[MASK]"], top_k="2"), "top_k is '2', expect"),
        (lambda m: m.fill_mask(["[MASK]"], top_k=[2]), r"top_k is \[2\], expe"),
        (
            lambda m: m.fill_mask(["[MASK]"], batch_size=None),
            "batch_size is None, expected 1, 2",
        ),
        (lambda m: m.predict(["a"]), "predict needs .* choice. Call fill_mask"),
        (lambda m: m.answer([("a", "b")]), "but answer needs span. Call fill"),
        (lambda m: m.entities(["a"]), "but entities needs tagging. Call fill"),
    ],
)
def test_calls_that_do_not_fit_are_refused(golden_model, call, message):
    with pytest.raises(ValueError, match=message):
        call(golden_model)


def test_an_encoder_answers_nothing(three_layers):
    model = bert.load(folder=pathlib.Path(three_layers), kind="encoder")
    message = "kind encoder, but ask needs pretr.* Call encode .*--do_encode"
    with pytest.raises(ValueError, match=message):
        model.ask(["a"])
    for length in 2, 129:
        with pytest.raises(ValueError, match=f"={length}; it must be 3 to 128"):
            bert.load(three_layers, max_seq_length=length)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_seq_length": "8"}, "'8'; it must be a whole number"),
        ({"max_seq_length": 8.0}, "8.0; it must be a whole number"),
        ({"use_calibration": "no"}, "'no'; it must be True or False"),
        ({"do_lower_case": "no"}, "'no'; it must be True or False"),
        ({"vocab_file": 5}, "5; it must be a string"),
    ],
)
def test_values_of_another_type_are_refused(three_layers, options, expected):
    with pytest.raises(ValueError, match=f"--{min(options)}={expected}"):
        bert.load(three_layers, **options)


def test_labels_of_another_kind_are_refused(goldens, tmp_path):
    finished_run(goldens, tmp_path, "classification")
    message = "regression task with . labels; .* Give the kind of its labels"
    with pytest.raises(ValueError, match=message):
        bert.load(str(tmp_path), kind="regression")


def test_a_run_is_not_asked_as_a_model_of_another_kind(goldens, tmp_path):
    finished_run(goldens, tmp_path, "classification")
    model = bert.load(str(tmp_path), kind="tagging")
    message = "kind is tagging, but .*task.json says classification; leave"
    with pytest.raises(ValueError, match=message):
        model.entities(["the man"])


@pytest.mark.parametrize("kind", ["classification", "choice", "span"])
def test_a_model_with_one_segment_type_refuses_pairs(goldens, tmp_path, kind):
    make_model = functools.partial(TaskModel, kind=kind, num_labels=2)
    if kind == "span":
        make_model = SpanModel
    one = tmp_path / "one"
    folder = write_with(goldens, one, make_model, type_vocab_size=1)
    options = {"num_choices": 2} if kind == "choice" else {}
    model = bert.load(folder, kind=kind, **options)
    pair = ("the man", ["he", "she"] if kind == "choice" else "the dog")
    reason = r"two segment types, .*type_vocab_size 1\)\. Give single texts, or"
    with pytest.raises(ValueError, match=rf"one \({kind}\): .*{reason}"):
        model.ask([pair])
    if kind != "classification":
        return
    assert model.predict(["the man"])[0]["label"] in "01"
    for call in model.encode, model.encode_words:
        with pytest.raises(ValueError, match=rf"texts\[1\]: .*{reason}"):
            call(["a", ("the man", "the dog")])
    with pytest.raises(ValueError, match=reason):
        model.attention(("the man", "the dog"))
    assert len(model.encode(["a", ("the man", "")])) == 2
