"""Muon against singular values in NumPy, and Adam for what is no kernel."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import rounding
from tests.training.loop.updates import apply
from training.loop import muon
from training.loop.optimizers import CLIP_NORM, AdamWeightDecay

KERNELS = {"a/kernel": (6, 6), "b/kernel": (5, 12), "c/kernel": (9, 4)}
OTHERS = {
    "e/word_embeddings": (7, 4),
    "f/LayerNorm/gamma": (4,),
    "a/bias": (6,),
    "cls/output_weights": (2, 5),
}
# The three iterations multiply a small value, and its rounding, by their first
# coefficients.
GAIN = np.prod([first for first, *_ in muon.ITERATIONS])


def polynomial(values):
    """What the iterations make of singular values."""
    for a, b, c in muon.ITERATIONS:
        values = a * values + b * values**3 + c * values**5
    return values


def direction(matrix):
    """The orthogonalized matrix, by its singular vectors in float64."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return (left * polynomial(values / np.linalg.norm(values))) @ right


def updated(kind, gradients, rates, factors):
    """The same start, and the variables and slots after updates."""
    rng = np.random.default_rng(0)
    variables = {
        name: tf.Variable(rng.normal(size=shape), dtype=tf.float32)
        for name, shape in (KERNELS | OTHERS).items()
    }
    optimizer = kind(variables, factors)
    start = {name: x.numpy().astype(float) for name, x in variables.items()}
    for step, (row, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        apply(optimizer, row, rate, step)
    return start, variables, optimizer.slots


@pytest.mark.parametrize("scale", [1e-3, 100.0])  # clipped or not
def test_ten_updates_equal_numpy(scale):
    rng = np.random.default_rng(1)
    shapes = KERNELS | OTHERS
    gradients = [
        [scale * rng.normal(size=shape) for shape in shapes.values()]
        for _ in range(10)
    ]
    rates = rng.uniform(0, 1e-2, 10)
    factors = dict.fromkeys(shapes, 0.5)
    start, found, slots = updated(muon.Muon, gradients, rates, factors)
    for i, (name, shape) in enumerate(KERNELS.items()):
        param, m = start[name], np.zeros(shape)
        for row, rate in zip(gradients, rates, strict=True):
            norm = np.sqrt(sum((x**2).sum() for x in row))
            gradient = row[i] * min(1.0, CLIP_NORM / norm)
            m = 0.95 * m + 0.05 * gradient
            moved = direction(0.95 * m + 0.05 * gradient)
            moved = 0.2 * np.sqrt(max(shape)) * moved + 0.01 * param
            param = param - 0.5 * rate * moved
        # Ten updates of at most 0.01.
        bound = rounding.most(0.1 * GAIN, "float32", 10)
        np.testing.assert_allclose(found[name], param, atol=bound)
        share = rounding.most(1, "float32", 10 * 10)
        np.testing.assert_allclose(
            slots[f"{name}/adam_m"], m, rtol=share, atol=share * np.abs(m).max()
        )
        assert not slots[f"{name}/adam_v"].numpy().any()
    _, adam, adam_slots = updated(AdamWeightDecay, gradients, rates, factors)
    for name in OTHERS:
        np.testing.assert_array_equal(found[name], adam[name])
        for slot in (f"{name}/adam_m", f"{name}/adam_v"):
            np.testing.assert_array_equal(slots[slot], adam_slots[slot])


def test_singular_values_are_near_to_one_and_small_ones_stay_small():
    values = polynomial(np.geomspace(0.003, 1, 9999))
    # The bounds of the best polynomials, whose coefficients are rounded.
    np.testing.assert_allclose(
        [values.min(), values.max()], [0.354, 1.646], atol=3e-3
    )
    assert (np.diff(polynomial(np.geomspace(1e-9, 0.003, 999))) > 0).all()


@pytest.mark.parametrize("shape", [(8, 8), (3, 50), (50, 3)])
def test_a_matrix_of_any_shape_and_size_is_orthogonalized(shape):
    matrix = np.random.default_rng(2).normal(size=shape)
    for scale in (1e-12, 1.0, 1e12):
        found = muon.orthogonalized(tf.constant(scale * matrix, tf.float32))
        bound = rounding.most(GAIN, "float32", 10)
        np.testing.assert_allclose(found, direction(matrix), atol=bound)


def test_a_gradient_of_zero_moves_nothing_but_by_decay():
    variable = tf.Variable(np.eye(3, dtype=np.float32))
    apply(muon.Muon({"x/kernel": variable}), [tf.zeros([3, 3])], 0.1)
    np.testing.assert_allclose(
        variable, (1 - 0.1 * 0.01) * np.eye(3), rtol=rounding.ONE_SUM
    )
