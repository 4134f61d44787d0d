"""Functions compiled into one loop: the same values and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import fusion, layers, losses


def run(function, *arguments, on):
    """Values, and gradients of a weighted sum, as a training step has them."""

    @tf.function
    def step(*arguments):
        with fusion.enabled(on):
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
        with fusion.enabled(True):
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
    "vocabulary": lambda: (
        lambda x, bias: losses.vocabulary_loss(
            x, bias, tf.constant([0, 4, 30, 7, 7])
        ),
        5 * normal(5, 31),
        normal(31),
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


def test_nothing_is_compiled_unless_asked_for():
    with fusion.enabled(False):
        assert not fusion.is_enabled()
        with fusion.enabled(True):
            assert fusion.is_enabled()
        assert not fusion.is_enabled()
    assert not fusion.is_enabled()


def test_of_equal_scores_the_first_is_the_highest():
    # Expected values by hand: -log(1/2) and -log(e^-3 / (2 + e^-3)).
    products = tf.constant([[1.0, 4.0, 4.0], [4.0, 4.0, 1.0]])
    for labels, hits in (([1, 0], [1, 1]), ([2, 2], [0, 0])):
        loss, hit = losses.vocabulary_loss(
            products, tf.zeros([3]), tf.constant(labels)
        )
        np.testing.assert_array_equal(hit, hits)
        np.testing.assert_allclose(
            loss, losses.cross_entropy(products, tf.constant(labels)), rtol=1e-6
        )
