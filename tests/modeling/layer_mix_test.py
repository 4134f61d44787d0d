"""Mixes of layers, on the original's own layer outputs."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax

from modeling import checkpoints
from modeling.choices import MIXES
from modeling.layer_mix import LayerMix
from tests.support import rounding


@pytest.fixture(scope="module")
def golden_layers(goldens):
    """The embeddings, three layers, and for a fourth and fifth their sums."""
    with np.load(goldens / "model/pretraining_trajectory.npz") as arrays:
        embeddings = arrays["step0/embedding_output"]
        blocks = [arrays[f"step0/layer_{i}"] for i in range(3)]
    return embeddings, (*blocks, blocks[0] + blocks[1], blocks[1] - blocks[2])


def expected_mix(mix, embeddings, blocks, weights):
    """The paper's table 7, literally."""
    if mix == "embeddings":
        return embeddings
    if mix == "last":
        return blocks[4]
    if mix == "second_to_last":
        return blocks[3]
    if mix == "sum_last_four":
        return blocks[1] + blocks[2] + blocks[3] + blocks[4]
    if mix == "concat_last_four":
        return np.concatenate(blocks[1:], axis=-1)
    taken = blocks if mix == "weighted_all" else blocks[1:]
    shares = softmax(weights[: len(taken)])
    return 1.5 * sum(s * x for s, x in zip(shares, taken, strict=True))


@pytest.mark.parametrize("mix", MIXES)
def test_mixes_equal_numpy(config, golden_layers, mix):
    layer = LayerMix(dataclasses.replace(config, num_hidden_layers=5), mix)
    weights = np.array([0.3, -1.0, 2.0, 0.5, 1.0])
    if layer.trainable_variables:
        count = layer.layer_weights.shape[0]
        layer.layer_weights.assign(weights[:count])
        layer.scale.assign(1.5)
    got = layer(*golden_layers)
    assert got.shape == (16, 64, layer.output_size)
    rounding.assert_equal(got, expected_mix(mix, *golden_layers, weights))


@pytest.mark.parametrize(
    ("mix", "count"), [("weighted_last_four", 4), ("weighted_all", 5)]
)
def test_a_weighted_sum_starts_as_the_mean(config, golden_layers, mix, count):
    layer = LayerMix(dataclasses.replace(config, num_hidden_layers=5), mix)
    variables = checkpoints.variables_by_name([layer])
    assert {n: tuple(v.shape) for n, v in variables.items()} == {
        "layer_mix/weights": (count,),
        "layer_mix/scale": (),
    }
    taken = golden_layers[1][-count:]
    rounding.assert_equal(layer(*golden_layers), np.mean(taken, axis=0))


def test_shares_stay_float32_in_bfloat16(config):
    layer = LayerMix(config, "weighted_all", dtype="mixed_bfloat16")
    ones = tf.ones([1, 2, 32], tf.bfloat16)
    mixed = layer(ones, (ones, ones, ones))
    assert mixed.dtype == tf.bfloat16
    assert layer.layer_weights.dtype == "float32"
    # A share is rounded, and the sum.
    bound = 2 * rounding.UNITS["bfloat16"]
    np.testing.assert_allclose(tf.cast(mixed, tf.float32), 1.0, atol=bound)


@pytest.mark.parametrize(
    ("blocks", "mix", "message"),
    [
        (3, "concat_last_four", "'concat_last_four'; a model with 3 blocks "),
        (3, "weighted_last_four", " has embeddings, last, second_to_last, "),
        (1, "second_to_last", "with 1 blocks has embeddings, last, w"),
        (3, "first", "^mix of layers 'first'; .* has embeddings, "),
    ],
)
def test_impossible_mixes_are_refused(config, blocks, mix, message):
    few = dataclasses.replace(config, num_hidden_layers=blocks)
    with pytest.raises(ValueError, match=message):
        LayerMix(few, mix)
