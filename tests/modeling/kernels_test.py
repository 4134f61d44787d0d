"""Functions in one loop or one kernel: the same values and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import BertConfig, TaskModel, kernels, layers
from modeling.kernels import Form
from tests import rounding


def run(function, *arguments, on):
    """Values, and gradients of a weighted sum, as a training step has them."""

    @tf.function
    def step(*arguments):
        with kernels.form(Form.COMPILED if on else Form.PLAIN):
            watched = [x for x in arguments if x.dtype.is_floating]
            with tf.GradientTape() as tape:
                tape.watch(watched)
                y = tf.cast(function(*arguments), tf.float32)
                weights = tf.cos(tf.cast(tf.range(tf.size(y)), tf.float32))
                total = tf.reduce_sum(tf.reshape(y, [-1]) * weights)
            return [y, *tape.gradient(total, watched)]

    return [x.numpy() for x in step(*arguments)]


def num_compiled(function, *arguments):
    @tf.function
    def step(*arguments):
        with kernels.form(Form.COMPILED):
            return function(*arguments)

    nodes = step.get_concrete_function(*arguments).graph.as_graph_def().node
    return sum("PartitionedCall" in node.op for node in nodes)


def normal(*shape, dtype=tf.float32):
    return tf.cast(tf.random.stateless_normal(shape, [3, sum(shape)]), dtype)


def dense(activation):
    layer = layers.Dense(24, stddev=0.2, activation=activation)
    layer.build((None, 16))
    return layer


def norm(x, residual, seed):
    layer = layers.LayerNorm()
    layer.build((None, x.shape[-1]))
    layer.gamma.assign(1 + normal(x.shape[-1]))
    layer.beta.assign(normal(x.shape[-1]))
    return lambda x: layer(x, residual, dropout_prob=0.3, dropout_seed=seed)


CASES = {
    "gelu": lambda: (dense("gelu"), normal(40, 16)),
    "gelu_exact": lambda: (dense("gelu_exact"), normal(40, 16)),
    "relu": lambda: (dense("relu"), normal(40, 16)),
    "norm": lambda: (norm(normal(40, 16), None, None), normal(40, 16)),
    "norm of dropped and residual": lambda: (
        norm(normal(40, 16), normal(40, 16), tf.constant([5, 6])),
        normal(40, 16),
    ),
    "dropout": lambda: (
        lambda x: layers.dropout(x, 0.1, tf.constant([1, 2])),
        normal(3, 7, 5),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_the_plain_function(name):
    function, *arguments = CASES[name]()
    fused = run(function, *arguments, on=True)
    plain = run(function, *arguments, on=False)
    for ours, theirs in zip(fused, plain, strict=True):
        # Of float32; sums are made in another order.
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)
    assert num_compiled(function, *arguments) > 0


def test_in_bfloat16_it_is_nearer_to_the_truth():
    function = dense("gelu")
    x = normal(200, 16)
    layer = layers.Dense(
        24, stddev=0.2, activation="gelu", dtype="mixed_bfloat16"
    )
    layer.build((None, 16))
    layer.kernel.assign(function.kernel)
    truth = run(function, x, on=False)[1]
    errors = [
        np.mean(np.abs(run(layer, x, on=on)[1] - truth)) for on in (True, False)
    ]
    # Half a unit in the last place of 8 bits is 0.002 of numbers near 1.
    assert errors[0] < 0.004
    assert errors[0] <= errors[1]


def test_a_form_ends_with_its_scope():
    assert kernels.current() is Form.PLAIN
    with kernels.form(Form.KERNELS):
        with pytest.raises(KeyError), kernels.form(Form.COMPILED):
            assert kernels.current() is Form.COMPILED
            raise KeyError
        assert kernels.current() is Form.KERNELS
    assert kernels.current() is Form.PLAIN


@pytest.fixture(scope="module")
def config():
    return BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
    )


@pytest.mark.parametrize("kind", ["classification", "tagging"])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_predictions_in_kernels_are_the_plain_ones(config, kind, dtype):
    model = TaskModel(config, kind, 3, dtype=dtype)
    for layer in model.layers:
        for variable in layer.weights:
            variable.assign(variable + 0.2 * normal(*variable.shape))
    ids = tf.random.stateless_uniform([5, 11], [1, 2], 0, 50, tf.int32)
    lengths = tf.constant([11, 1, 7, 4, 10])
    batch = {
        "input_ids": ids,
        "input_mask": tf.sequence_mask(lengths, 11, tf.int32),
        "segment_ids": ids % 2,
    }
    probabilities = {}
    for on in (True, False):
        # As batches of predictions come: B and S differ.
        @tf.function(
            input_signature=[
                dict.fromkeys(batch, tf.TensorSpec([None, None], tf.int32))
            ]
        )
        def predict(batch, on=on):
            with kernels.form(Form.KERNELS if on else Form.PLAIN):
                return model.predict(batch)

        nodes = predict.get_concrete_function().graph.as_graph_def().node
        assert any("FusedBatchNorm" in node.op for node in nodes) == on
        probabilities[on] = predict(batch).numpy()
    if dtype == "float32":  # sums in another order
        np.testing.assert_allclose(
            probabilities[True], probabilities[False], atol=1e-5
        )
        return
    # Both are rounded. A softmax makes half of its logits' error at most.
    num_roundings = rounding.EMBEDDINGS + rounding.DENSE + rounding.POOLER
    num_roundings += rounding.BLOCK * config.num_hidden_layers
    scale = rounding.root_mean_square(model.logits(batch)) / 2
    rounding.assert_near(
        probabilities[True],
        probabilities[False],
        "bfloat16",
        2 * num_roundings,
        scale,
    )
    spread = probabilities[False].std()
    assert spread > 4 * rounding.deviation(scale, "bfloat16", 2 * num_roundings)


@pytest.mark.parametrize(
    # Heads of 16 and of 2 numbers: of 2 bytes each, two do not make 8.
    ("dtype", "num_heads", "is_moved_by_eight"),
    [
        ("float32", 2, True),
        ("float32", 16, True),
        ("mixed_bfloat16", 2, True),
        ("mixed_bfloat16", 16, False),
        ("mixed_float16", 2, True),
    ],
)
def test_a_served_model_moves_eight_bytes_at_once_and_answers_alike(
    config, dtype, num_heads, is_moved_by_eight
):
    config = BertConfig.from_dict(
        config.to_dict() | {"num_attention_heads": num_heads}
    )
    model = TaskModel(config, "classification", 3, dtype=dtype)
    ids = tf.random.stateless_uniform([3, 9], [1, 2], 0, 50, tf.int32)
    batch = {
        "input_ids": ids,
        "input_mask": tf.sequence_mask([9, 1, 4], 9, tf.int32),
        "segment_ids": ids % 2,
    }

    def predict(form):
        with kernels.form(form):
            return model.predict(batch)

    # The same numbers: how they are moved is all that differs.
    np.testing.assert_array_equal(
        predict(Form.SERVED), predict(Form.PLAIN), strict=True
    )
    graph = tf.function(predict).get_concrete_function(Form.SERVED).graph
    moved = [
        op.outputs[0].dtype
        for op in graph.get_operations()
        if op.type == "Transpose"
    ]
    assert len(moved) == 2 * 4
    assert [x.is_complex for x in moved] == [is_moved_by_eight] * 8


def test_a_served_model_says_that_it_has_no_gradient(config):
    model = TaskModel(config, "classification", 3)
    ids = tf.ones([2, 4], tf.int32)
    batch = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ids)
    with tf.GradientTape() as tape, kernels.form(Form.SERVED):
        scores = model.predict(batch)
    with pytest.raises(LookupError, match="exported model has no gradient"):
        tape.gradient(scores, [v.value for v in model.bert.trainable_weights])


def test_compiling_pays_for_long_training_and_large_models():
    small = BertConfig(
        vocab_size=9,
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=6,
        intermediate_size=1536,
    )
    batches = {"batch_size": 32, "seq_length": 128}
    # One length: 2e8 / (32 * 128 * 6 * 384) = 21.2 steps.
    assert not kernels.pays(small, num_steps=21, **batches)
    assert kernels.pays(small, num_steps=22, **batches)
    # Ten lengths, half as long: twenty times as many.
    assert not kernels.pays(small, num_steps=423, num_lengths=10, **batches)
    assert kernels.pays(small, num_steps=424, num_lengths=10, **batches)


def test_a_norm_of_known_shape_is_the_plain_one():
    # TensorFlow would simplify the kernel's form, and be slower by half.
    function = norm(normal(40, 16), None, None)

    @tf.function
    def step(x):
        with kernels.form(Form.KERNELS):
            return function(x)

    nodes = step.get_concrete_function(normal(40, 16)).graph.as_graph_def().node
    assert not any("FusedBatchNorm" in node.op for node in nodes)
