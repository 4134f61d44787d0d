"""Masked words filled by an export, as run_pretraining.py fills them."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from data.pretraining import queries
from data.records.feature_spec import encode_examples, pretraining_features
from data.text.tokenization import FullTokenizer
from modeling import BertConfig, PretrainingModel, checkpoints
from tests.support import rounding
from tests.support.model_folder_support import load_weights
from tests.support.pretraining_support import make_options
from tests.support.serving_support import INPUTS, assert_served_alike, export
from training.export import saved_model
from training.export.predictor import Predictor
from training.runs import pretraining

TEXTS = [
    "The man [MASK] to the [MASK].",
    *("no mask \u4e2d", "[MASK]", "", "caf\u00e9[MASK][MASK]s"),
]
LENGTH = 24


def describe(goldens, folder, init_checkpoint):
    """Writes what --do_export adds to a folder of pretraining."""
    options = make_options(goldens, folder).replace(
        vocab_file=str(goldens / "vocab.txt"),
        max_seq_length=LENGTH,
        predict_top_k=3,
        do_train=False,
        do_export=True,
        init_checkpoint=init_checkpoint,
    )
    pretraining.run(options)


@pytest.fixture(scope="module")
def finished(goldens, tmp_path_factory):
    """A folder with the golden model's weights."""
    folder = tmp_path_factory.mktemp("pretrained")
    describe(goldens, folder, init_checkpoint=str(goldens / "model/trained"))
    return folder


@pytest.fixture(scope="module")
def signatures(finished):
    return saved_model.load(str(finished)).signatures


def wanted(goldens, lines):
    """The answers of --do_predict, and the rows it makes."""
    config = BertConfig.from_json_file(str(goldens / "first_layer.json"))
    model = PretrainingModel(config)
    load_weights(goldens / "model/trained", model)
    tokenizer = FullTokenizer(str(goldens / "vocab.txt"))
    asked = [queries.make_query(line, tokenizer) for line in lines]
    batch = queries.query_batch(asked, LENGTH, max_predictions=4)
    logits, next_sentence = model.logits(batch)
    probs = tf.reshape(tf.nn.softmax(logits), [-1, 4, config.vocab_size])
    is_next = tf.nn.softmax(next_sentence).numpy()
    answers = [
        queries.answer(*scores, tokenizer.inv_vocab, 3)
        for scores in zip(asked, probs.numpy(), is_next, strict=True)
    ]
    return answers, {name: batch[name] for name in INPUTS}


def check(outputs, answers):
    outputs = {name: x.numpy() for name, x in outputs.items()}
    for i, answer in enumerate(answers):
        masks, found = answer.get("masks", []), outputs["probabilities"][i]
        there = outputs["positions"][i] >= 0
        assert there.sum() == len(masks)
        for place, words in zip(np.flatnonzero(there), masks, strict=True):
            tokens = outputs["tokens"][i, place]
            assert [x.decode() for x in tokens] == [w for w, _ in words]
            rounding.assert_equal(found[place], [p for _, p in words])
        assert not found[~there].any()
        if "is_next_probability" in answer:
            is_next = outputs["is_next_probability"][i]
            rounding.assert_equal(is_next, answer["is_next_probability"])


def test_masks_are_filled_as_the_program_fills_them(signatures, goldens):
    answers, rows = wanted(goldens, TEXTS)
    check(signatures["serve_text"](tf.constant(TEXTS)), answers)
    check(signatures["serving_default"](**rows), answers)
    check(signatures["serve_ids"](rows["input_ids"]), answers)
    specs = [s for s in pretraining_features(LENGTH, 1) if s.name in INPUTS]
    records = tf.constant(encode_examples(specs, rows))
    check(signatures["serve_examples"](records), answers)


def test_pairs_say_whether_the_second_follows(signatures, goldens):
    pairs = [("The [MASK] left.", "He came back."), ("a", "[MASK] b")]
    answers, _ = wanted(goldens, [f"{a} ||| {b}" for a, b in pairs])
    outputs = signatures["serve_pair"](
        *map(tf.constant, zip(*pairs, strict=True))
    )
    assert all("is_next_probability" in answer for answer in answers)
    check(outputs, answers)


def load_without(finished, goldens, tmp_path, scope):
    """The same model, whose checkpoint lacks a head."""
    shutil.copytree(finished, tmp_path / "run")
    full = checkpoints.open_checkpoint(str(goldens / "model/trained"))
    kept = {n: full.read(n) for n in full.shapes if not n.startswith(scope)}
    checkpoints.write(str(tmp_path / "run/bert_model.ckpt"), kept)
    return saved_model.load(str(tmp_path / "run"))


@pytest.mark.parametrize("scope", ["cls/seq_relationship/", "bert/pooler/"])
def test_no_untrained_head_answers_a_pair(finished, goldens, tmp_path, scope):
    serving = load_without(finished, goldens, tmp_path, scope)
    assert "serve_pair" not in serving.signatures
    assert serving.exported.keys() == serving.signatures.keys()
    assert "second text" not in serving.in_words()
    outputs = serving.signatures["serve_text"](tf.constant(TEXTS))
    assert sorted(outputs) == ["positions", "probabilities", "tokens"]


def test_no_mask_is_filled_by_an_untrained_head(finished, goldens, tmp_path):
    with pytest.raises(ValueError, match="masked words has not been trained"):
        load_without(finished, goldens, tmp_path, "cls/predictions")


def test_long_texts_and_texts_without_masks_are_answered(signatures):
    serve = signatures["serve_text"]
    assert serve(tf.constant(["the " * 99, ""]))["tokens"].shape == (2, 0, 3)
    outputs = serve(tf.constant(["[MASK] " * 99]))
    assert outputs["positions"].numpy().tolist() == [list(range(1, 23))]


def test_a_predictor_gives_each_text_its_own_masks(signatures):
    two, none, *_ = Predictor(signatures).predict(TEXTS)
    assert len(two["tokens"]) == len(two["positions"]) == 2
    assert none["tokens"] == none["probabilities"] == []


@pytest.mark.all
def test_a_plain_session_fills_alike(finished, signatures, tmp_path):
    asked = {"texts": ("serve_text", {"text": TEXTS})}
    assert_served_alike(export(finished, tmp_path), signatures, asked, tmp_path)


def test_a_folder_without_weights_is_refused(goldens, tmp_path):
    with pytest.raises(ValueError, match="holds no checkpoint; train first"):
        describe(goldens, tmp_path, init_checkpoint=None)
