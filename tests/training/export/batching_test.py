"""Batches as TensorFlow Serving makes them of ids, and batches of no example.

With `pad_variable_length_inputs` the server makes the requests equally long by
the first element of each tensor, whatever it is (`AddPadding` in
tensorflow_serving/batching/batching_util.cc): ids get [CLS], masks get 1.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from data.text.vocabulary import load_vocab
from modeling import PretrainingModel
from tests.support import rounding
from tests.support.model_folders import description_of
from tests.support.serving_support import (
    INPUTS,
    LENGTH,
    config_of,
    finished_run,
    span_serving,
)
from tests.support.tiers import rare
from training.export import saved_model
from training.export.pretraining_signatures import PretrainingServing

CLS, SEP, MASK = 2, 3, 4  # in the golden vocabulary


def pretrained(goldens):
    keras.utils.set_random_seed(1)
    model = PretrainingModel(config_of(goldens))
    for variable in model.layers[-1].trainable_variables:
        variable.assign(tf.random.stateless_normal(variable.shape, (1, 2)))
    return PretrainingServing(
        model,
        description_of("pretraining", max_seq_length=LENGTH, top_k=2),
        load_vocab(str(goldens / "vocab.txt")),
    )


KINDS = (
    "classification",
    # Of the same class as the first.
    rare("regression"),
    rare("multilabel"),
    rare("choice"),
    "tagging",
    "span",
    "pretraining",
)


def requests_of(kind):
    """Requests of one or two rows; a client has padded the shorter one."""
    rng = np.random.default_rng(1)
    shape = (3, 16) if kind == "choice" else (16,)
    requests = []
    for lengths in ((5, 9), (7,), (12,), (3,)):
        ids = rng.integers(5, 1000, (len(lengths), *shape), np.int32)
        ids[..., 0] = CLS
        if kind == "pretraining":
            ids[..., 1] = MASK
        places = np.arange(16)
        length = np.reshape(lengths, (-1,) + (1,) * len(shape))
        ids = np.where((places == length - 1) | (places == 2), SEP, ids)
        mask = (places < length) + 0 * ids
        segments = mask * (places > 2)
        rows = (x[..., : max(lengths)] for x in (ids * mask, mask, segments))
        requests.append(dict(zip(INPUTS, rows, strict=True)))
    return requests


def joined(tensors):
    """What the server makes of a tensor of each request."""
    size = max(x.shape[-1] for x in tensors)

    def padded(x):
        widths = [(0, 0)] * (x.ndim - 1) + [(0, size - x.shape[-1])]
        return np.pad(x, widths, constant_values=x.flat[0])

    return np.concatenate([padded(x) for x in tensors])


def check_answers(got, wanted, mask):
    """Whether rows of a batch are answered as in a request of their own."""
    assert got.keys() == wanted.keys()
    for name, values in wanted.items():
        here = got[name].numpy()
        values = values.numpy()
        if values.shape[1:2] == mask.shape[1:] and name != "labels":
            # Of each token: padding has no answer.
            here = here[:, : values.shape[1]][mask > 0]
            values = values[mask > 0]
        elif name in ("positions", "tokens", "probabilities"):
            here = here[:, : values.shape[1]]
        if values.dtype == object:
            np.testing.assert_array_equal(here, values)
        else:
            rounding.assert_equal(here, values, rtol=rounding.EQUAL)


@pytest.fixture(scope="module", params=KINDS)
def served(request, goldens, tmp_path_factory):
    """Kind of a small model, and its functions."""
    kind = request.param
    if kind == "span":
        serving = span_serving(goldens)
    elif kind == "pretraining":
        serving = pretrained(goldens)
    else:
        folder = tmp_path_factory.mktemp(kind)
        finished_run(goldens, folder, kind, kind == "classification")
        serving = saved_model.load(str(folder))
    return kind, serving.signatures


def test_padding_of_the_server_changes_no_answer(served):
    kind, signatures = served
    requests = requests_of(kind)
    for names in INPUTS, INPUTS[:1]:
        serve = signatures["serving_default" if names[1:] else "serve_ids"]
        batch = {n: joined([x[n] for x in requests]) for n in names}
        assert (batch["input_ids"][..., 1:] == CLS).any()
        answers = serve(**batch)
        start = 0
        for request in requests:
            alone = {name: request[name] for name in names}
            size = len(alone["input_ids"])
            here = {n: x[start : start + size] for n, x in answers.items()}
            check_answers(here, serve(**alone), request["input_mask"])
            start += size


def texts_of(function, *numbers):
    """As many texts for each input of a function."""
    specs = function.input_signature
    return [
        tf.fill([number, *(size or 2 for size in spec.shape[1:])], "a man")
        for number, spec in zip(numbers * len(specs), specs, strict=False)
    ]


@pytest.mark.all
def test_a_batch_of_no_example_has_no_answer(served):
    _, signatures = served
    for name in signatures.keys() & {"serve_text", "serve_words", "serve_pair"}:
        one = signatures[name](*texts_of(signatures[name], 1))
        none = signatures[name](*texts_of(signatures[name], 0))
        assert {n: x.dtype for n, x in none.items()} == {
            n: x.dtype for n, x in one.items()
        }
        assert {x.shape[0] for x in none.values()} == {0}


def test_texts_of_different_numbers_are_refused(served):
    serve = served[1]["serve_text"]
    if len(serve.input_signature) > 1:
        message = "must have one text for each example"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            serve(*texts_of(serve, 1, 2))


def test_cls_is_a_word_where_texts_may_have_it(goldens):
    ids = np.array([[CLS, 7, CLS, 8, SEP]], np.int32)
    cut = np.array([[CLS, 7, 0, 0, 0]], np.int32)
    for whole, is_word in ((), False), (("[CLS]",), True):
        serve = span_serving(goldens, never_split=whole).signatures["serve_ids"]
        answers = [serve(x)["start_logits"][0, :2] for x in (ids, cut)]
        assert np.allclose(*answers, atol=rounding.EQUAL) != is_word
