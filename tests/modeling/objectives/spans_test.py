"""Start and end scores against the original's, the loss against NumPy."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from data.records import length_batches
from modeling import SpanModel
from tests.modeling.objectives.tasks_support import with_random_head
from tests.support import rounding
from tests.support.model_folder_support import load_weights


def golden_model(goldens, config, version="v1.1", **options):
    """The model that the original fine-tuned."""
    model = SpanModel(config, **options)
    trained = goldens / f"squad/finetuned_{version}/model.ckpt-60"
    assert not load_weights(trained, model).missing
    return model


def golden_batch(goldens, version="v1.1"):
    """24 windows of 96 places with made-up answers, and their scores."""
    with np.load(goldens / f"squad/span_logits_{version}.npz") as arrays:
        found = dict(arrays)
    scores = np.stack([found.pop("start_logits"), found.pop("end_logits")], 2)
    rng = np.random.default_rng(5)
    num_tokens = found["input_mask"].sum(axis=1)
    for name in ("start_positions", "end_positions"):
        found[name] = rng.integers(0, num_tokens)[:, None].astype(np.int32)
    return {name: tf.constant(x) for name, x in found.items()}, scores


def loss_of(model, batch):
    return model.losses(batch, model.loss_weights(batch))


@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_scores_equal_the_originals(goldens, config, version):
    model = golden_model(goldens, config, version)
    batch, expected = golden_batch(goldens, version)
    real = batch["input_mask"].numpy()
    assert 0 < real.mean() < 1  # some have padding, whose scores count too
    rounding.assert_equal(model.logits(batch), expected)
    outputs = model.score_examples(batch)
    np.testing.assert_array_equal(outputs["predictions"], model.predict(batch))
    np.testing.assert_array_equal(outputs["num_tokens"], real.sum(axis=1))


@pytest.mark.parametrize("score_padding", [True, False])
def test_losses_and_accuracy_equal_numpy(goldens, config, score_padding):
    model = golden_model(goldens, config, score_padding=score_padding)
    batch, scores = golden_batch(goldens)
    # One answer that the model gives, else no accuracy is seen.
    row = 3
    best = np.where(batch["input_mask"].numpy()[row, :, None], scores[row], -99)
    for i, name in enumerate(("start_positions", "end_positions")):
        positions = batch[name].numpy()
        positions[row] = best[:, i].argmax()
        batch[name] = tf.constant(positions)
    scores = scores.astype(np.float64)
    mask = np.ones((24, 96)) if score_padding else batch["input_mask"].numpy()
    total, right = 0.0, np.ones(24)
    for i, name in enumerate(("start_positions", "end_positions")):
        wanted = batch[name].numpy()[:, 0]
        of_end = scores[:, :, i]
        norm = np.log((np.exp(of_end) * mask).sum(axis=1))
        total += (norm - of_end[range(24), wanted]).mean() / 2
        right *= np.where(mask, of_end, -99).argmax(axis=1) == wanted
    loss, metrics = loss_of(model, batch)
    assert float(loss) == pytest.approx(total, rel=rounding.EQUAL)
    np.testing.assert_array_equal(metrics["accuracy"], [right.sum(), 24])
    assert right[row]


def test_trimmed_batches_have_the_same_loss_and_gradient(goldens, config):
    model = golden_model(goldens, config)
    # The golden windows are full, nearly all: these end at 20 to 70.
    batch, _ = golden_batch(goldens)
    lengths = np.random.default_rng(3).integers(20, 71, 24)
    real = tf.constant(np.arange(96) < lengths[:, None], tf.int32)
    for name in ("input_ids", "input_mask", "segment_ids"):
        batch[name] *= real
    for name in ("start_positions", "end_positions"):
        batch[name] %= lengths[:, None]
    trimmed = length_batches.trim_batch(batch)
    assert trimmed["input_ids"].shape == (24, 72)
    assert trimmed["start_positions"].shape == (24, 1)
    weights = [
        v.value for layer in model.layers for v in layer.trainable_variables
    ]
    found = []
    for some in (batch, trimmed):
        with tf.GradientTape() as tape:
            loss, metrics = loss_of(model, some)
        gradients = tape.gradient(loss, weights, unconnected_gradients="zero")
        found.append([loss, *metrics.values(), *gradients])
    for whole, cut in zip(*found, strict=True):
        whole, cut = (tf.convert_to_tensor(x) for x in (whole, cut))
        rounding.assert_equal(cut, whole)
    asked = tf.cast(real[:, :72, None], tf.float32)
    rounding.assert_equal(
        model.logits(trimmed) * asked, model.logits(batch)[:, :72] * asked
    )


def test_bfloat16_follows_float32(goldens, config):
    batch, expected = golden_batch(goldens)
    scores = golden_model(goldens, config, dtype="mixed_bfloat16").logits(batch)
    assert scores.dtype == tf.float32
    num_roundings = rounding.EMBEDDINGS + rounding.DENSE
    num_roundings += rounding.BLOCK * config.num_hidden_layers
    rounding.assert_near(scores, expected, "bfloat16", num_roundings)


def test_a_bilstm_reads_the_encoder(goldens, config):
    model = with_random_head(SpanModel, config, head="bilstm")
    batch, _ = golden_batch(goldens)
    lengths = np.random.default_rng(3).integers(3, 8, 24)
    real = tf.constant(np.arange(12) < lengths[:, None], tf.int32)
    for name in ("input_ids", "input_mask", "segment_ids"):
        batch[name] = batch[name][:, :12] * real
    states, _ = model.bilstm(model.encode(batch).get_sequence_output(), real)
    weights, bias = (v.numpy() for v in model.head.weights)
    expected = np.einsum("bsh,ch->bsc", states.numpy(), weights) + bias
    rounding.assert_equal(model.logits(batch), expected, rtol=rounding.EQUAL)
    # Padding says nothing, so that batches may be cut to their longest row.
    cut = model.logits(length_batches.trim_batch(batch))
    assert cut.shape == (24, 8, 2)
    asked = tf.cast(real[:, : cut.shape[1], None], tf.float32)
    rounding.assert_equal(cut * asked, expected[:, : cut.shape[1]] * asked)


@pytest.mark.parametrize("head", ["linear", "bilstm"])
def test_only_a_bilstm_lets_a_left_to_right_model_see_what_follows(
    goldens, config, head
):
    # "+ BiLSTM" of Table 5: the encoder sees the left, the head both sides.
    config = dataclasses.replace(config, left_to_right=True)
    keras.utils.set_random_seed(7)
    model = SpanModel(config, head=head)
    batch = {n: x[:, :12] for n, x in golden_batch(goldens)[0].items()}
    before = model.logits(batch).numpy()
    ids = batch["input_ids"].numpy()
    ids[:, 8] = 30
    after = model.logits(batch | {"input_ids": tf.constant(ids)}).numpy()
    changed = np.abs(after - before)[:, :8].max() > 10 * rounding.EQUAL
    assert changed == (head == "bilstm")


def test_another_head_is_refused(config):
    with pytest.raises(ValueError, match="head 'crf'; it must be one of"):
        SpanModel(config, head="crf")
