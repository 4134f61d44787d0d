"""The loss over a vocabulary: against TensorFlow's own cross entropy."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import kernels, losses
from modeling.kernels import vocabulary
from modeling.kernels.vocabulary import (
    vocabulary_loss,
    vocabulary_loss_in_parts,
)
from tests.support import gpu_support, rounding
from tests.support.tiers import rare

# The table, the bias, the product and its sum with the bias.
LOGITS = 2 + rounding.DENSE


def normal(*shape):
    return tf.random.stateless_normal(shape, [5, sum(shape)])


def plain_loss(x, table, bias, labels):
    """Every step in float32, by TensorFlow's own operations."""
    logits = tf.matmul(tf.cast(x, tf.float32), table, transpose_b=True) + bias
    return tf.stack(
        [losses.cross_entropy(logits, labels), losses.hits(logits, labels)]
    )


def results(loss_of, *arguments, weights):
    """Losses, hits, and the gradients of the losses' weighted sum."""

    @tf.function
    def step(*arguments):
        with tf.GradientTape() as tape:
            tape.watch(arguments[:3])
            found, hits = tf.unstack(loss_of(*arguments))
            total = tf.reduce_sum(found * weights)
        return found, hits, *tape.gradient(total, arguments[:3])

    return [tf.cast(x, tf.float32).numpy() for x in step(*arguments)]


# Two rows have one label: what both pick from the table adds up.
LABELS = tf.constant([0, 4, 30, 7, 7])
WEIGHTS = tf.constant([0.1, 2.0, 0.0, 1.0, -1.5])


def five_rows(dtype, labels=LABELS):
    """The arguments of a loss over 31 words."""
    return tf.cast(normal(5, 6), dtype), 2 * normal(31, 6), normal(31), labels


def assert_near(found, wanted, arguments, dtype, num_roundings):
    """Asserts that `results` differ by roundings only; hits not at all.

    The error of a logit is that of a loss, and the relative error of a
    probability and so of a gradient.
    """
    x, table, bias, _ = arguments
    logits = tf.matmul(tf.cast(x, tf.float32), table, transpose_b=True) + bias
    scale = rounding.root_mean_square(logits)
    (loss, hits, *gradients), (want, want_hits, *want_gradients) = found, wanted
    rounding.assert_near(loss, want, dtype, num_roundings, scale)
    np.testing.assert_array_equal(hits, want_hits)
    for got, want in zip(gradients, want_gradients, strict=True):
        size = scale * rounding.root_mean_square(want)
        rounding.assert_near(got, want, dtype, num_roundings, size)


def of_logits(logits, labels, weights):
    """The same of given logits: the table holds them, and x looks them up."""
    logits = tf.constant(logits)
    x = tf.eye(len(logits), dtype=logits.dtype)
    table = tf.cast(tf.transpose(logits), tf.float32)
    return results(
        vocabulary_loss,
        *(x, table, tf.zeros([len(table)]), tf.constant(labels)),
        weights=tf.constant(weights),
    )


@pytest.mark.parametrize("dtype", rounding.UNITS)
def test_losses_and_gradients_are_those_of_cross_entropy(dtype):
    arguments = five_rows(dtype)
    ours, theirs = (
        results(function, *arguments, weights=WEIGHTS)
        for function in (vocabulary_loss, plain_loss)
    )
    # In float32 sums round: of 6 products and of 31 exponentials.
    num_roundings = 6 + 31 if dtype == "float32" else LOGITS
    assert_near(ours, theirs, arguments, dtype, num_roundings)


def test_a_label_without_a_probability_has_a_loss_all_the_same():
    # By hand: exp(-200) is 0 in float32; the loss is 200.
    found, hit, of_x, of_table, of_bias = of_logits(
        [[0.0, 200.0, -3.0]], [0], [2.0]
    )
    np.testing.assert_array_equal(found, [200.0])
    np.testing.assert_array_equal(hit, [0.0])
    np.testing.assert_array_equal(of_x, [[2 * 200.0]])
    np.testing.assert_array_equal(of_table, [[-2.0], [2.0], [0.0]])
    np.testing.assert_array_equal(of_bias, [-2.0, 2.0, 0.0])


def test_float16_keeps_the_gradient_of_rare_words():
    # Each of 60,000 has a probability of 1.7e-5; the least number that float16
    # holds in full is 6e-5, and a loss is scaled for its sake.
    *_, of_table, of_bias = of_logits(
        np.zeros([1, 60_000], np.float16), [0], [2.0**15]
    )
    for gradient in (of_table[1:, 0], of_bias[1:]):
        # The probability and the product with it are rounded.
        np.testing.assert_allclose(
            gradient, 2.0**15 / 60_000, rtol=2 * rounding.UNITS["float16"]
        )


@pytest.mark.parametrize(
    # In 16 bits one probability is rounded. In float32 there are eight
    # roundings, from the exponentials to the softplus, of values up to 4.
    ("dtype", "tolerance"),
    [
        ("float32", 8 * 4 * rounding.UNITS["float32"]),
        ("bfloat16", rounding.UNITS["bfloat16"]),
        ("float16", rounding.UNITS["float16"]),
    ],
)
def test_of_equal_scores_the_first_is_the_highest(dtype, tolerance):
    # By hand: -log of 1 / (2 + e^-3), and of e^-3 / (2 + e^-3).
    logits = tf.constant([[1.0, 4.0, 4.0], [4.0, 4.0, 1.0]], dtype)
    own = np.log(2 + np.exp(-3))
    for labels, hits, values in (
        ([1, 0], [1, 1], [own, own]),
        ([2, 2], [0, 0], [own, own + 3]),
    ):
        found, hit, *_ = of_logits(logits, labels, [1.0, 1.0])
        np.testing.assert_array_equal(hit, hits)
        np.testing.assert_allclose(found, values, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", rounding.UNITS)
def test_words_told_with_certainty_keep_their_gradient(dtype):
    # 1 - 0.998 is 0 or 0.004 in bfloat16.
    table = normal(500, 64)
    labels = tf.range(40) * 7
    x = tf.cast(0.25 * tf.gather(table, labels), dtype)
    arguments = x, table, tf.zeros([500]), labels
    ours, theirs = (
        results(function, *arguments, weights=tf.ones([40]))
        for function in (vocabulary_loss, plain_loss)
    )
    loss = theirs[0]
    assert loss.mean() < 0.02
    # The error of the label's logit is the relative error of the probability
    # of all others. A row counts as much as this probability, its loss.
    own = 0.25 * np.square(tf.gather(table, labels)).sum(axis=1)
    scale = np.sqrt(np.average(np.square(own), weights=np.square(loss)))
    if dtype == "float32":  # sums of 64 products; 1 minus a sum of 500
        tolerance = rounding.deviation(scale, dtype, 64)
        tolerance += rounding.deviation(
            1 / rounding.root_mean_square(loss), dtype, 500
        )
    else:
        tolerance = rounding.deviation(scale, dtype, 1)
    for one, other in zip(ours[2:], theirs[2:], strict=True):
        error = np.linalg.norm(one - other) / np.linalg.norm(other)
        assert error < tolerance


@pytest.mark.parametrize("form", [kernels.Form.PLAIN, kernels.Form.STANDARD])
def test_the_highest_of_many_is_found_below_zero_too(form):
    logits = 3 * normal(40, 500).numpy() - 10.0
    labels = logits.argmax(axis=1).astype(np.int32)
    for shift in (0, 1):
        with kernels.form(form):
            _, hit, *_ = of_logits(logits, (labels + shift) % 500, [1.0] * 40)
        np.testing.assert_array_equal(hit, np.full(40, 1.0 - shift))


@pytest.mark.parametrize("device", ["has_gpu", "on_tpu"])
@pytest.mark.parametrize("dtype", rounding.UNITS)
def test_the_operations_for_a_gpu_and_a_tpu_give_the_same_bits(
    dtype, device, monkeypatch
):
    # Of two rows with one label the sum may have another order.
    arguments = five_rows(dtype, tf.constant([0, 4, 30, 7, 12]))
    on_cpu = results(vocabulary_loss, *arguments, weights=WEIGHTS)
    monkeypatch.setattr(vocabulary, device, lambda: True)
    found = results(vocabulary_loss, *arguments, weights=WEIGHTS)
    for one, other in zip(on_cpu, found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("device", ["has_gpu", "on_tpu"])
def test_what_rows_of_one_label_subtract_is_added_up(device, monkeypatch):
    totals = normal(31, 6)
    labels, values = tf.constant([3, 3, 0, 3]), normal(4, 6)
    want = totals.numpy()
    np.subtract.at(want, labels.numpy(), values.numpy())
    monkeypatch.setattr(vocabulary, device, lambda: True)
    np.testing.assert_allclose(
        vocabulary._minus_at(totals, labels, values),
        want,
        rtol=0,
        # Three sums of values up to 8, in another order.
        atol=3 * 8 * rounding.UNITS["float32"],
    )


def concrete_step(loss_of, num_rows, num_words):
    """A loss and its gradient, of rows of six numbers."""

    @tf.function
    def step(x, table, bias, labels):
        with tf.GradientTape() as tape:
            tape.watch((x, table, bias))
            loss = tf.reduce_sum(loss_of(x, table, bias, labels)[0])
        return tape.gradient(loss, (x, table, bias))

    shapes = [num_rows, 6], [num_words, 6], [num_words]
    specs = [*map(tf.TensorSpec, shapes), tf.TensorSpec([num_rows], tf.int32)]
    return step.get_concrete_function(*specs)


def test_a_tpu_scatters_nothing(monkeypatch):
    monkeypatch.setattr(vocabulary, "on_tpu", lambda: True)
    nodes = gpu_support.operations(concrete_step(vocabulary_loss, 5, 31))
    found = {node.op for node, _ in nodes}
    assert "OneHot" in found
    assert not [op for op in found if "Scatter" in op or "Segment" in op]


# 31 logits in a row: parts of 1, 2 and 3 rows, of which 5 rows fill 5, 3 and 2.
@pytest.mark.parametrize("rows_at_once", [2, *map(rare, (1, 3))])
@pytest.mark.parametrize("num_rows", [5, None])
@pytest.mark.parametrize("dtype", rounding.UNITS)
def test_parts_give_what_the_whole_gives(
    dtype, num_rows, rows_at_once, monkeypatch
):
    monkeypatch.setattr(vocabulary, "LOGITS_AT_ONCE", 31 * rows_at_once + 1)
    arguments = five_rows(dtype)

    def in_parts(x, table, bias, labels):
        x = tf.raw_ops.PlaceholderWithDefault(input=x, shape=[num_rows, 6])
        return vocabulary_loss_in_parts(x, table, bias, labels)

    got, want = (
        results(function, *arguments, weights=WEIGHTS)
        for function in (in_parts, vocabulary_loss)
    )
    # Each of two results rounds the sums of its rows: 5 in 16 bits, and in
    # float32 of 6 products and 31 exponentials too.
    num_roundings = 2 * (5 + (6 + 31 if dtype == "float32" else LOGITS))
    assert_near(got, want, arguments, dtype, num_roundings)


@pytest.mark.parametrize("form", [kernels.Form.PLAIN, kernels.Form.STANDARD])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_parts_take_a_table_that_a_layer_has_cast(dtype, form, monkeypatch):
    monkeypatch.setattr(vocabulary, "LOGITS_AT_ONCE", 31 * 2)

    def cast_first(x, table, bias, labels):
        narrow = tf.cast(table, dtype), tf.cast(bias, dtype)
        return vocabulary_loss_in_parts(x, *narrow, labels)

    with kernels.form(form):
        got, want = (
            results(function, *five_rows(dtype), weights=tf.ones([5]))
            for function in (cast_first, vocabulary_loss_in_parts)
        )
    for found, expected in zip(got[:3], want[:3], strict=True):
        np.testing.assert_array_equal(found, expected)
    # Each of the two gradients may be rounded to the dtype of the table.
    for found, expected in zip(got[3:], want[3:], strict=True):
        rounding.assert_near(found, expected, dtype, 2)


def largest_tensor(loss_of, num_rows):
    """Elements of the largest tensor of a loss and its gradient."""
    step = concrete_step(loss_of, num_rows, 310)
    graph = step.graph.as_graph_def(add_shapes=True)
    # Its own operations, and those of its loops and functions.
    bodies = [graph.node, *(x.node_def for x in graph.library.function)]
    sizes = [
        tf.TensorShape(shape).num_elements()
        for nodes in bodies
        for node in nodes
        for shape in node.attr["_output_shapes"].list.shape
    ]
    return max(size for size in sizes if size)


def test_parts_need_no_more_memory_for_more_rows(monkeypatch):
    monkeypatch.setattr(vocabulary, "LOGITS_AT_ONCE", 310 * 8)
    assert largest_tensor(vocabulary_loss, 64) == 310 * 64
    for num_rows in (64, 256):
        assert largest_tensor(vocabulary_loss_in_parts, num_rows) == 310 * 8
