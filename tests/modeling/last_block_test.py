"""The last block, computed where it is read, gives what the whole one gives."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from modeling import BertModel, PretrainingModel, TaskModel
from tests.modeling.objectives.numpy_model import with_weights
from tests.support import rounding
from tests.support.small_model import SMALL
from tests.support.tiers import rare

CONFIG = dataclasses.replace(SMALL, num_hidden_layers=2, intermediate_size=24)
LEFT_TO_RIGHT = dataclasses.replace(CONFIG, left_to_right=True)
SEED = tf.constant([3, 4])
# In 16 bits, of two graphs, each of them forward and back.
NUM_ROUNDINGS = (2 * 2) * (
    rounding.EMBEDDINGS + 2 * rounding.BLOCK + rounding.POOLER + rounding.DENSE
)
# Products of another height may be added up in another order: in float32 each
# of up to 24 terms is a rounding, and each of 6 dense layers' results.
LONGEST_SUM = CONFIG.intermediate_size + 6


def make_model(kind, config=CONFIG, **options):
    if kind == "pretraining":
        model = PretrainingModel(config, **options)
    else:
        options["head_dropout"] = 0.0
        model = TaskModel(config, kind, 3, **options)
    with_weights(model)
    return model


def make_batch(kind, length=13):
    """Four rows: a random mask, a padded, a full and an empty one."""
    rng = np.random.default_rng(2)

    def ints(high, *shape):
        return tf.constant(rng.integers(0, high, shape), tf.int32)

    mask = rng.integers(0, 2, [4, length])
    mask[1:] = np.arange(length) < [[length // 2 + 1], [length], [0]]
    width = length * (3 if kind == "choice" else 1)
    batch = {
        "input_ids": ints(30, 4, width),
        "input_mask": tf.constant(np.tile(mask, width // length), tf.int32),
        "segment_ids": ints(2, 4, width),
    }
    if kind != "pretraining":
        real = {"is_real_example": tf.ones([4, 1], tf.int32)}
        return batch | real | {"label_ids": ints(3, 4, 1)}
    # Padded with zeros, as in records; one position is repeated.
    places = ints(length, 4, 3)
    places = [places, places[:, :1], tf.zeros([4, 2], tf.int32)]
    return batch | {
        "masked_lm_positions": tf.concat(places, axis=1),
        "masked_lm_ids": ints(30, 4, 6),
        "masked_lm_weights": tf.constant([[1.0, 1, 1, 1, 0, 0]] * 4),
        "next_sentence_labels": ints(2, 4, 1),
    }


def results(kind, batch, seed=None, jit_compile=False, **options):
    """Logits, loss and all gradients, by name."""
    model = make_model(kind, **options)
    weights = {v.path: v.value for x in model.layers for v in x.weights}

    @tf.function(jit_compile=jit_compile)
    def compute():
        with tf.GradientTape() as tape:
            loss, _ = model.losses(batch, model.loss_weights(batch), seed)
        gradients = tape.gradient(loss, weights)
        return {"loss": loss} | tf.nest.map_structure(
            tf.convert_to_tensor, gradients
        )

    logits = tf.nest.flatten(model.logits(batch))
    return compute() | {f"logits{i}": x for i, x in enumerate(logits)}


def assert_same(kind, batch, **options):
    want = results(kind, batch, whole_last_layer=True, **options)
    got = results(kind, batch, **options)
    assert got.keys() == want.keys()
    if "dtype" in options:
        rounding.assert_all_near(got, want, "bfloat16", NUM_ROUNDINGS)
    else:
        for name, value in want.items():
            bound = rounding.most(
                max(1, np.abs(value).max()), "float32", LONGEST_SUM
            )
            np.testing.assert_allclose(
                got[name], value, rtol=0, atol=bound, err_msg=name
            )
    # The first block's weights, too, learn through the last one.
    path = "bert/encoder/layer_0/attention/self/value/kernel"
    assert np.abs(got[path]).max() > 1e-3


@pytest.mark.parametrize("config", [CONFIG, LEFT_TO_RIGHT])
@pytest.mark.parametrize(
    "kind", ["classification", rare("pretraining"), rare("choice")]
)
def test_logits_loss_and_gradients_are_the_same(kind, config):
    assert_same(kind, make_batch(kind), config=config)


@pytest.mark.all
@pytest.mark.parametrize("kind", ["pretraining", "classification"])
@pytest.mark.parametrize(
    "options",
    [
        {"gradient_checkpointing": True, "seed": SEED},
        {"jit_compile": True, "config": LEFT_TO_RIGHT},
        {"dtype": "mixed_bfloat16"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_so_they_are_however_it_is_computed(kind, options):
    assert_same(kind, make_batch(kind), **options)


@pytest.mark.parametrize("length", [rare(1), 2])
def test_short_rows_are_no_exception(length):
    assert_same("pretraining", make_batch("pretraining", length))


@pytest.mark.parametrize(
    ("kind", "read"), [("pretraining", 7), ("classification", 1)]
)
def test_only_keys_and_values_are_computed_everywhere(kind, read):
    model, batch = make_model(kind), make_batch(kind)
    graph = tf.function(model.logits).get_concrete_function(batch).graph
    heights = [
        op.outputs[0].shape[0]
        for op in graph.get_operations()
        if op.type == "BiasAdd"
    ]
    everywhere, narrow = [4 * 13] * 3, [4 * read]
    assert heights[:6] == everywhere * 2  # six dense layers of a block
    # Query, key, value; those behind attention; the pooler.
    assert heights[6:9] == narrow + everywhere[:2]
    assert heights[9:12] == narrow * 3
    assert 4 in heights[12:]
    assert 4 * 13 not in heights[12:]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("places", [[[5, 0, 12, 5]], [[]]])
@pytest.mark.parametrize("config", [CONFIG, LEFT_TO_RIGHT])
def test_the_encoder_gives_the_text_position_and_those_named(
    config, places, whole
):
    batch = make_batch("classification")
    ids = [batch[name] for name in ("input_ids", "input_mask", "segment_ids")]
    bert = BertModel(config, whole_last_layer=whole)
    with_weights(bert)
    places = tf.constant(places * 4, tf.int32)
    full, some = bert(*ids), bert(*ids, positions=places)
    close = functools.partial(
        np.testing.assert_allclose,
        atol=rounding.most(1, "float32", LONGEST_SUM),
    )
    text = np.zeros([4], int)
    if config.left_to_right:  # the last real position; 0 in an empty row
        text = (batch["input_mask"].numpy() * np.arange(13)).max(axis=1)
    taken = np.concatenate([text[:, np.newaxis], places], axis=1).astype(int)
    words = full.get_sequence_output().numpy()
    close(
        some.get_sequence_output(),
        np.take_along_axis(words, taken[:, :, np.newaxis], axis=1),
    )
    close(some.pooled_output, full.pooled_output)
    np.testing.assert_array_equal(
        some.all_encoder_layers[0], full.all_encoder_layers[0]
    )
    looks = full.attention_probs[1].numpy()
    rows = taken[:, np.newaxis, :, np.newaxis]
    close(
        some.attention_probs[1],
        looks if whole else np.take_along_axis(looks, rows, axis=2),
    )


def test_dropout_of_the_last_block_is_a_function_of_its_seed():
    config = dataclasses.replace(SMALL, hidden_dropout_prob=0.5)
    model, batch = make_model("pretraining", config), make_batch("pretraining")
    embedded = model.bert.embeddings(batch["input_ids"], batch["segment_ids"])
    bias = tf.zeros([4, 1, 1, 13])
    places = batch["masked_lm_positions"]
    quiet, noisy, again, other = (
        model.bert.encoder(embedded, bias, seed, places)[0][-1]
        for seed in (None, SEED, SEED, tf.constant([3, 5]))
    )
    np.testing.assert_array_equal(noisy, again)
    assert np.abs(noisy - quiet).max() > 0.1
    assert np.abs(noisy - other).max() > 0.1
