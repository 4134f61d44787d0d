import json

import numpy as np
import pytest
import tensorflow as tf

from data.text import tokenization
from modeling import BertConfig, PretrainingModel
from tests.support import rounding
from tests.support.model_folder_support import load_weights
from tests.support.pretraining_support import RECORDS
from tests.support.run_files import results_in, rows_in
from training.runs import pretraining


@pytest.fixture
def options(options, goldens):
    """Those of the golden model, with all of its layers."""
    return options.replace(bert_config_file=str(goldens / "bert_config.json"))


def test_evaluation_equals_numpy_on_the_same_rows(goldens, tmp_path, options):
    trained = str(goldens / "model/trained")
    pretraining.run(
        options.replace(
            do_train=False,
            do_eval=True,
            init_checkpoint=trained,
            max_eval_steps=21,
            eval_batch_size=16,
        )
    )
    results = results_in(tmp_path / "out")
    expected = numpy_evaluation(goldens, trained, num_batches=21)
    assert list(results) == sorted(["global_step", *expected])
    for name, value in expected.items():
        assert results[name] == pytest.approx(value, abs=rounding.EQUAL), name


def golden_model(goldens, checkpoint):
    config = BertConfig.from_json_file(str(goldens / "bert_config.json"))
    model = PretrainingModel(config)
    load_weights(checkpoint, model)
    return model


def golden_rows(goldens):
    """The features of all golden records by name."""
    records = rows_in(goldens / RECORDS)
    return {name: np.array([x[name] for x in records]) for name in records[0]}


def numpy_evaluation(goldens, checkpoint, num_batches):
    """The original's metrics, spelled out over log probabilities."""
    model = golden_model(goldens, checkpoint)
    rows = golden_rows(goldens)
    sums = np.zeros(6)
    batch_losses = []
    for i in range(num_batches):
        batch = {
            name: values[16 * i : 16 * i + 16] for name, values in rows.items()
        }
        features = {
            name: tf.constant(values, tf.int32)
            for name, values in batch.items()
            if values.dtype.kind == "i"
        }
        masked, following = (
            tf.nn.log_softmax(x).numpy() for x in model.logits(features)
        )
        ids = batch["masked_lm_ids"].ravel()
        weights = batch["masked_lm_weights"].ravel()
        labels = batch["next_sentence_labels"].ravel()
        losses = -masked[np.arange(len(ids)), ids] * weights
        next_losses = -following[np.arange(16), labels]
        batch_losses.append(
            losses.sum() / (weights.sum() + 1e-5) + next_losses.mean()
        )
        sums += [
            losses.sum(),
            ((masked.argmax(1) == ids) * weights).sum(),
            weights.sum(),
            next_losses.sum(),
            (following.argmax(1) == labels).sum(),
            16,
        ]
    return {
        "loss": np.mean(batch_losses),
        "masked_lm_loss": sums[0] / sums[2],
        "masked_lm_accuracy": sums[1] / sums[2],
        "next_sentence_loss": sums[3] / sums[5],
        "next_sentence_accuracy": sums[4] / sums[5],
    }


def second_query(tokenizer):
    """A batch of "a sailor [MASK] . ||| the mill ."."""
    tokens = ["[CLS]", *tokenizer.tokenize("a sailor"), "[MASK]", ".", "[SEP]"]
    num_first = len(tokens)
    tokens += [*tokenizer.tokenize("the mill ."), "[SEP]"]
    segment_ids = [0] * num_first + [1] * (len(tokens) - num_first)
    return {
        "input_ids": tf.constant([tokenizer.convert_tokens_to_ids(tokens)]),
        "input_mask": tf.ones([1, len(tokens)], tf.int32),
        "segment_ids": tf.constant([segment_ids]),
        "masked_lm_positions": tf.constant([[tokens.index("[MASK]")]]),
    }


def test_queries_are_answered_with_the_models_probabilities(
    goldens, tmp_path, options, capsys
):
    lines = ["the [MASK] was a [MASK] .", "a sailor [MASK] . ||| the mill ."]
    (tmp_path / "queries.txt").write_text("\n\n".join(lines) + "\n")
    trained = str(goldens / "model/trained")
    pretraining.run(
        options.replace(
            do_train=False,
            do_predict=True,
            predict_file=str(tmp_path / "queries.txt"),
            vocab_file=str(goldens / "vocab.txt"),
            init_checkpoint=trained,
            predict_top_k=3,
        )
    )
    text = (tmp_path / "out/predict_results.jsonl").read_text()
    assert capsys.readouterr().out == text
    first, second = map(json.loads, text.splitlines())
    assert [first["text"], second["text"]] == lines
    assert [len(mask) for mask in first["masks"]] == [3, 3]
    assert "is_next_probability" not in first

    tokenizer = tokenization.FullTokenizer(str(goldens / "vocab.txt"))
    masked, following = golden_model(goldens, trained).logits(
        second_query(tokenizer)
    )
    probabilities = tf.nn.softmax(masked[0]).numpy()
    best = np.argsort(-probabilities)[:3]
    (answer,) = second["masks"]
    words = [tokenizer.inv_vocab[i] for i in best]
    assert [word for word, _ in answer] == words
    # Padded to 64 there, not here: float32 rounding, six decimals written.
    np.testing.assert_allclose(
        [p for _, p in answer], probabilities[best], atol=rounding.SIX_DECIMALS
    )
    (is_next, _) = tf.nn.softmax(following[0]).numpy()
    assert second["is_next_probability"] == pytest.approx(
        float(is_next), abs=rounding.SIX_DECIMALS
    )
