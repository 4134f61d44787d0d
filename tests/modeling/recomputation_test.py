"""Gradient checkpointing gives the gradients of keeping everything."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import PretrainingModel
from tests.modeling.objectives.conformance_support import make_batch
from tests.support import rounding
from tests.support.small_model import SMALL
from tests.support.tiers import rare

CONFIG = dataclasses.replace(
    SMALL,
    num_hidden_layers=2,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)
BATCH = make_batch(PretrainingModel, rows=4)


def make_model(dtype, checkpointing):
    keras.utils.set_random_seed(1)
    return PretrainingModel(
        CONFIG, dtype=dtype, gradient_checkpointing=checkpointing
    )


def gradients(dtype, checkpointing, jit_compile, frozen):
    model = make_model(dtype, checkpointing)
    FROZEN[frozen](model.bert).trainable = False
    weights = [v.value for x in model.layers for v in x.trainable_weights]

    @tf.function(jit_compile=jit_compile)
    def compute():
        with tf.GradientTape() as tape:
            loss, _ = model.losses(
                BATCH, model.loss_weights(BATCH), tf.constant([3, 4])
            )
        return [loss, *map(tf.convert_to_tensor, tape.gradient(loss, weights))]

    concrete = compute.get_concrete_function()
    nodes = concrete.graph.as_graph_def().node
    softmaxes = [node for node in nodes if node.op == "Softmax"]
    return [value.numpy() for value in concrete()], len(softmaxes)


# All are above the embeddings, which learn.
FROZEN = {
    "pooler": lambda bert: bert.pooler,
    "blocks": lambda bert: bert.encoder,
    "block": lambda bert: bert.encoder.blocks[0],
    "part": lambda bert: bert.encoder.blocks[1].attention,
}


@pytest.mark.parametrize(
    ("dtype", "jit_compile", "frozen"),
    [
        rare("mixed_bfloat16", False, "pooler"),
        ("float32", False, "part"),
        rare("float32", False, "blocks"),
        # XLA compiles for half a minute.
        rare("float32", True, "pooler"),
        rare("float32", True, "block"),
    ],
)
def test_gradients_are_the_same(dtype, jit_compile, frozen):
    kept, num_softmaxes = gradients(dtype, False, jit_compile, frozen)
    again, num_again = gradients(dtype, True, jit_compile, frozen)
    # Of two blocks, and of the vocabulary; dropout is on, too.
    assert (num_softmaxes, num_again) == (2 + 1, 4 + 1)
    if dtype == "float32":
        for want, got in zip(kept, again, strict=True):
            # Sums of up to 31 terms, which may be in another order.
            bound = rounding.most(max(1, np.abs(want).max()), "float32", 31)
            np.testing.assert_allclose(got, want, rtol=0, atol=bound)
        return
    # TensorFlow may fuse operations in one graph that are separate in the
    # other, which rounds in other places: up to two blocks and back.
    num_roundings = 2 * (rounding.EMBEDDINGS + 2 * rounding.BLOCK)
    names = ["loss", *map(str, range(1, len(kept)))]
    again, kept = (dict(zip(names, x, strict=True)) for x in (again, kept))
    rounding.assert_all_near(again, kept, "bfloat16", num_roundings)


def test_outputs_are_the_same_but_for_attention_in_training():
    ids = [BATCH[n] for n in ("input_ids", "input_mask", "segment_ids")]
    kept, saving = (make_model("float32", c).bert for c in (False, True))
    for seed in (None, tf.constant([3, 4])):
        want, got = kept(*ids, seed), saving(*ids, seed)
        for a, b in zip(
            want.all_encoder_layers, got.all_encoder_layers, strict=True
        ):
            np.testing.assert_array_equal(a, b)
        assert len(got.attention_probs) == (2 if seed is None else 0)


def test_a_replica_may_have_no_rows():
    ids, mask = BATCH["input_ids"][:0], BATCH["input_mask"][:0]
    bert = make_model("float32", checkpointing=True).bert
    with tf.GradientTape() as tape:
        output = bert(ids, mask, training=True)
        loss = tf.reduce_sum(output.all_encoder_layers[-1])
    weights = [x.value for x in bert.encoder.trainable_weights]
    for gradient in tape.gradient(loss, weights):
        np.testing.assert_array_equal(gradient, tf.zeros_like(gradient))
