"""The loss over a vocabulary: against TensorFlow's own cross entropy."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import losses


def scores(*shape, spread=3.0, dtype=tf.float32):
    return tf.cast(
        spread * tf.random.stateless_normal(shape, [5, sum(shape)]), dtype
    )


def loss_and_gradient(loss_of, logits, weights):
    """Losses, and the gradient of their weighted sum, of a compiled graph."""

    @tf.function
    def step(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            found = loss_of(logits)
            total = tf.reduce_sum(found * weights)
        return found, tape.gradient(total, logits)

    return [tf.cast(x, tf.float32).numpy() for x in step(logits)]


LABELS = tf.constant([0, 4, 30, 7, 7])
WEIGHTS = tf.constant([0.1, 2.0, 0.0, 1.0, -1.5])


@pytest.mark.parametrize(
    # A probability of 8 bits has an error of 2^-9, one of 11 bits 2^-12; its
    # gradient is rounded once more.
    ("dtype", "tolerance"),
    [("float32", 2e-6), ("bfloat16", 8e-3), ("float16", 1e-3)],
)
def test_losses_and_gradients_are_those_of_cross_entropy(dtype, tolerance):
    logits = scores(5, 31, dtype=dtype)
    ours = loss_and_gradient(
        lambda x: losses.vocabulary_loss(x, LABELS)[0], logits, WEIGHTS
    )
    theirs = loss_and_gradient(
        lambda x: losses.cross_entropy(x, LABELS),
        tf.cast(logits, tf.float32),
        WEIGHTS,
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=tolerance)


def test_a_label_without_a_probability_has_a_loss_all_the_same():
    # By hand: exp(-200) is 0 in float32; the loss is 200.
    logits = tf.constant([[0.0, 200.0, -3.0]])
    found, gradient = loss_and_gradient(
        lambda x: losses.vocabulary_loss(x, tf.constant([0]))[0],
        logits,
        tf.constant([2.0]),
    )
    np.testing.assert_array_equal(found, [200.0])
    np.testing.assert_array_equal(gradient, [[-2.0, 2.0, 0.0]])


def test_float16_keeps_the_gradient_of_rare_words():
    # Each of 60,000 has a probability of 1.7e-5; the least number that float16
    # holds in full is 6e-5, and a loss is scaled for its sake.
    logits = tf.zeros([1, 60_000], tf.float16)
    _, gradient = loss_and_gradient(
        lambda x: losses.vocabulary_loss(x, tf.constant([0]))[0],
        logits,
        tf.constant([2.0**15]),
    )
    np.testing.assert_allclose(gradient[0, 1:], 2.0**15 / 60_000, rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_of_equal_scores_the_first_is_the_highest(dtype):
    # Expected values by hand: -log(1/2) and -log(e^-3 / (2 + e^-3)).
    logits = tf.constant([[1.0, 4.0, 4.0], [4.0, 4.0, 1.0]], dtype)
    for labels, hits in (([1, 0], [1, 1]), ([2, 2], [0, 0])):
        _, hit = losses.vocabulary_loss(logits, tf.constant(labels))
        np.testing.assert_array_equal(hit, hits)


def test_the_highest_of_many_is_found_below_zero_too():
    logits = scores(40, 500) - 10.0
    labels = tf.argmax(logits, axis=1, output_type=tf.int32)
    _, hit = losses.vocabulary_loss(logits, labels)
    np.testing.assert_array_equal(hit, np.ones(40))
    _, hit = losses.vocabulary_loss(logits, (labels + 1) % 500)
    np.testing.assert_array_equal(hit, np.zeros(40))
