"""The BiLSTM against NumPy; padding reaches nothing."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit

from modeling import checkpoints
from modeling.bilstm import BiLSTM
from tests.support import rounding

LENGTHS = [7, 1, 11, 4]
SEQ_LENGTH, INPUT_SIZE, WIDTH = 11, 5, 3


def make_bilstm(**options):
    keras.utils.set_random_seed(3)
    bilstm = BiLSTM(INPUT_SIZE, WIDTH, **options)
    rng = np.random.default_rng(1)
    for variable in bilstm.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    return bilstm


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(len(LENGTHS), SEQ_LENGTH, INPUT_SIZE))
    mask = np.arange(SEQ_LENGTH) < np.array(LENGTHS)[:, None]
    return x.astype(np.float32), mask.astype(np.int32)


def read_one(x, weights):
    """States [length, W] of one text [length, I] in one direction."""
    states, cell = [np.zeros(WIDTH)], np.zeros(WIDTH)
    for row in x:
        gates = row @ weights["kernel"] + weights["bias"]
        gates = gates + states[-1] @ weights["recurrent_kernel"]
        write, keep, candidate, show = np.split(gates, 4)
        cell = expit(keep) * cell + expit(write) * np.tanh(candidate)
        states.append(expit(show) * np.tanh(cell))
    return np.stack(states[1:])


def read(x, bilstm):
    """Both layers on one text without padding; the last states."""
    values = {
        name: v.numpy().astype(np.float64)
        for name, v in checkpoints.variables_by_name([bilstm]).items()
    }
    for layer in range(2):
        from_left, from_right = (
            {
                name: values[f"bilstm/layer_{layer}/{direction}/{name}"]
                for name in ("kernel", "recurrent_kernel", "bias")
            }
            for direction in ("forward", "backward")
        )
        x = np.concatenate(
            [read_one(x, from_left), read_one(x[::-1], from_right)[::-1]],
            axis=1,
        )
    return x, np.concatenate([x[-1, :WIDTH], x[0, WIDTH:]])


@pytest.mark.parametrize("compiled", [False, True])
def test_states_equal_numpy_on_texts_without_padding(inputs, compiled):
    bilstm = make_bilstm()
    call = tf.function(bilstm) if compiled else bilstm
    words, last = call(*map(tf.constant, inputs))
    assert words.shape == (4, SEQ_LENGTH, bilstm.output_size) == (4, 11, 6)
    for row, length in enumerate(LENGTHS):
        expected, expected_last = read(inputs[0][row, :length], bilstm)
        rounding.assert_equal(words[row, :length], expected)
        rounding.assert_equal(last[row], expected_last)


def test_what_stands_in_the_padding_changes_no_state_and_no_gradient(inputs):
    bilstm, (x, mask) = make_bilstm(), inputs
    real = mask[..., None]

    def run(x, mask):
        with tf.GradientTape() as tape:
            words, last = bilstm(tf.constant(x), tf.constant(mask))
            words *= real[:, : x.shape[1]]
            total = tf.reduce_sum(words**2) + tf.reduce_sum(last)
        weights = [v.value for v in bilstm.trainable_variables]
        return [words, last, *tape.gradient(total, weights)]

    clean = run(x, mask)
    for got, want in zip(run(x + 9 * (1 - real), mask), clean, strict=True):
        np.testing.assert_array_equal(got, want)
    # Four columns more or less change nothing either.
    longer = np.pad(x, [(0, 0), (0, 4), (0, 0)], constant_values=5.0)
    real = np.pad(real, [(0, 0), (0, 4), (0, 0)])
    padded = run(longer, np.pad(mask, [(0, 0), (0, 4)]))
    padded[0] = padded[0][:, :SEQ_LENGTH]
    for got, want in zip(padded, clean, strict=True):
        rounding.assert_equal(got, want, rtol=rounding.EQUAL)


@pytest.mark.all
def test_xla_gives_the_same(inputs):
    bilstm, (x, mask) = make_bilstm(), inputs

    def gradient(x, mask):
        with tf.GradientTape() as tape:
            words, _ = bilstm(x, mask)
            total = tf.reduce_sum(words * tf.cast(mask, x.dtype)[..., None])
        return tape.gradient(total, bilstm.stack[0].backward.kernel.value)

    inputs = tf.constant(x), tf.constant(mask)
    rounding.assert_equal(
        tf.function(gradient, jit_compile=True)(*inputs),
        gradient(*inputs),
        rtol=rounding.EQUAL,
    )


def test_bfloat16_follows_float32(inputs):
    bilstm = make_bilstm()
    whole = bilstm(*map(tf.constant, inputs))
    half = make_bilstm(dtype="mixed_bfloat16")(*map(tf.constant, inputs))
    real = inputs[1][..., None]
    assert half[0].dtype == half[1].dtype == tf.bfloat16
    for got, want, kept in zip(half, whole, (real, 1), strict=True):
        got = tf.cast(got, tf.float32) * kept
        # The input, and the states of each layer.
        num_roundings = 1 + len(bilstm.stack)
        rounding.assert_near(got, want * kept, "bfloat16", num_roundings)


def test_variables_have_stable_names_and_open_forget_gates():
    variables = checkpoints.variables_by_name([BiLSTM(5, 3)])
    assert {name: tuple(v.shape) for name, v in variables.items()} == {
        f"bilstm/layer_{layer}/{direction}/{name}": shape
        for layer, size in ((0, 5), (1, 6))
        for direction in ("forward", "backward")
        for name, shape in (
            ("kernel", (size, 12)),
            ("recurrent_kernel", (3, 12)),
            ("bias", (12,)),
        )
    }
    np.testing.assert_array_equal(
        variables["bilstm/layer_1/backward/bias"], [0] * 3 + [1] * 3 + [0] * 6
    )
