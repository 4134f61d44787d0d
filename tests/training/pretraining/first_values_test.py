"""--first_weights: frequencies and neighbors, and what they leave alone."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import BertConfig, PretrainingModel, checkpoints
from modeling.objectives.left_to_right import LeftToRightModel
from tests.support.objectives_support import (
    LENGTH,
    PREDICTIONS,
    VOCAB,
    write_records,
    write_vocab,
)
from tests.support.pretraining_support import assert_same_checkpoint
from training.pretraining import first_values
from training.runs import pretraining

WORDS = 30
CONFIG = BertConfig(
    vocab_size=VOCAB,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=16,
    max_position_embeddings=64,
)
LAYER = "bert/encoder/layer_0/attention/"
CHANGED = {
    "bert/embeddings/word_embeddings",
    "bert/embeddings/position_embeddings",
    "bert/embeddings/token_type_embeddings",
    *(f"{LAYER}self/{name}/kernel" for name in ("query", "key", "value")),
    f"{LAYER}output/dense/kernel",
}


def new_weights(model=PretrainingModel, config=CONFIG):
    keras.utils.set_random_seed(3)
    return checkpoints.variables_by_name(model(config).layers)


def values(weights):
    return {name: variable.numpy() for name, variable in weights.items()}


def shares(weights, heads):
    """What each head of layer 0 attends to, [heads, WORDS, WORDS]."""
    table = {name: value.astype(float) for name, value in weights.items()}
    words = np.random.default_rng(7).integers(0, VOCAB, WORDS)
    vectors = (
        table["bert/embeddings/word_embeddings"][words]
        + table["bert/embeddings/position_embeddings"][:WORDS]
        + table["bert/embeddings/token_type_embeddings"][0]
    )
    vectors -= vectors.mean(axis=1, keepdims=True)
    vectors /= vectors.std(axis=1, keepdims=True)
    query, key = (
        np.stack(np.split(vectors @ table[f"{LAYER}self/{n}/kernel"], heads, 1))
        for n in ("query", "key")
    )
    scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
    exp = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exp / exp.sum(axis=-1, keepdims=True)


def test_the_bias_is_the_frequency_of_what_is_predicted():
    weights = new_weights()
    batch = {
        "masked_lm_ids": tf.constant([[7, 7, 9], [7, 0, 0]]),
        # The last two are padding.
        "masked_lm_weights": tf.constant([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]),
    }
    counts = first_values.count_targets([batch, batch], VOCAB)
    first_values.assign_frequencies(weights, counts)
    # Each count plus one: 6 + 1 of id 7, 2 + 1 of id 9, 1 of the others.
    expected = np.ones(VOCAB)
    expected[[7, 9]] = 7, 3
    bias = weights["cls/predictions/output_bias"].numpy()
    np.testing.assert_allclose(
        np.exp(bias) / np.exp(bias).sum(), expected / expected.sum(), rtol=1e-5
    )


def test_without_masks_every_real_wordpiece_is_counted():
    batch = {
        "input_ids": tf.constant([[2, 8, 8, 3, 0]]),
        "input_mask": tf.constant([[1, 1, 1, 1, 0]]),
    }
    counts = first_values.count_targets([batch], VOCAB)
    assert counts[[0, 2, 3, 8]].tolist() == [0, 1, 1, 2]
    assert counts.sum() == 4


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_half_of_the_heads_attend_to_a_neighbor_each(heads):
    config = dataclasses.replace(CONFIG, num_attention_heads=heads)
    weights = new_weights(config=config)
    first_values.assign_neighbors(weights, config, seed=1)
    found = shares(values(weights), heads)
    inner = np.arange(2, WORDS - 2)
    local = {1: [-1], 2: [-1, 1], 4: [-1, 1], 8: [-1, 1, -2, 2]}[heads]
    for head, offset in enumerate(local):
        # What the comment of `_PEAK` says. The words, which are random, add
        # noise. A narrow head has fewer waves to tell positions apart.
        share = found[head, inner, inner + offset]
        assert share.mean() == pytest.approx(0.7, abs=0.1)
        assert share.min() > 0.3
    for head in range(len(local), heads):
        assert found[head].max() < 0.2


def test_left_to_right_the_neighbors_are_on_the_left():
    config = dataclasses.replace(CONFIG, left_to_right=True)
    weights = new_weights(LeftToRightModel, config)
    first_values.assign_neighbors(weights, config, seed=1)
    found = shares(values(weights), 4)
    inner = np.arange(4, WORDS)
    for head in range(2):
        share = found[head, inner, inner - head - 1]
        assert share.mean() == pytest.approx(0.7, abs=0.1)


def test_narrow_embeddings_are_refused():
    config = dataclasses.replace(CONFIG, electra=True, embedding_size=32)
    message = "neighbors needs .*size is 32 .* 128; .*--first_weights=freq"
    with pytest.raises(ValueError, match=message):
        first_values.assign_neighbors({}, config, seed=1)


def test_all_other_weights_stay():
    before, weights = values(new_weights()), new_weights()
    first_values.assign_neighbors(weights, CONFIG, seed=1)
    after = values(weights)
    assert {
        name for name in after if not np.array_equal(before[name], after[name])
    } == CHANGED
    for name in ("self/value", "output/dense"):
        kernel = after[f"{LAYER}{name}/kernel"]
        # float32 products of unit vectors
        np.testing.assert_allclose(kernel @ kernel.T, np.eye(128), atol=1e-5)


@pytest.fixture(params=["pretraining", "left_to_right", "replaced_tokens"])
def from_neighbors(request, options, tmp_path):
    """Four steps; the second half may be another run of the same folder."""
    options = options.replace(init_checkpoint=None, first_weights="neighbors")
    if request.param != "pretraining":
        config = tmp_path / "config.json"
        config.write_text(CONFIG.to_json_string())
        options = options.replace(
            objective=request.param,
            bert_config_file=str(config),
            vocab_file=write_vocab(tmp_path / "vocab.txt"),
            input_file=write_records(tmp_path / "plain.tf_record"),
            max_seq_length=LENGTH,
            max_predictions_per_seq=PREDICTIONS,
        )
    return options.replace(num_train_steps=4)


@pytest.mark.all
def test_a_resumed_run_keeps_what_it_has_learned(
    from_neighbors, tmp_path, logged
):
    pretraining.run(from_neighbors)
    parts = from_neighbors.replace(output_dir=str(tmp_path / "parts"))
    pretraining.run(parts.replace(stop_at_step=2))
    assert "is not used" not in logged.text
    pretraining.run(parts)
    assert "--first_weights is not used: " in logged.text
    assert_same_checkpoint(tmp_path / "parts", tmp_path / "out")


@pytest.mark.parametrize("flag", ["init_checkpoint", "continue_from"])
def test_other_beginnings_are_refused(options, flag):
    changes = {"init_checkpoint": None, flag: "other"}
    message = f"--first_weights=neighbors contradicts --{flag}=other; drop one"
    with pytest.raises(ValueError, match=message):
        options.replace(first_weights="neighbors", **changes)
