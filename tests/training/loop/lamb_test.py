"""LAMB against an independent NumPy form, and by hand."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import rounding
from tests.training.loop.updates import apply, assert_thirty_updates_equal
from training.loop.lamb import Lamb


def direction(name, param, m, v, t):
    """Algorithm 2, with the exclusions of the released code."""
    moved = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6)
    if any(x in name for x in ("LayerNorm", "bias")):
        return moved
    moved = moved + 0.01 * param
    lengths = np.linalg.norm(param), np.linalg.norm(moved)
    return moved * (lengths[0] / lengths[1] if all(lengths) else 1.0)


@pytest.mark.parametrize("scale", [1e-3, 100.0])  # clipped or not
def test_thirty_updates_equal_numpy(scale):
    assert_thirty_updates_equal(Lamb, direction, scale)


def test_the_first_update_by_hand():
    # Bias correction makes m / sqrt(v) the sign of the gradient: (1, -1), of
    # length sqrt(2). Without weight decay's part the weights (3, 4), of length
    # 5, would move by rate * 5 / sqrt(2) each; a bias by the rate.
    variables = {"x/kernel": [3.0, 4.0], "x/bias": [3.0, 4.0]}
    variables = {n: tf.Variable(v) for n, v in variables.items()}
    apply(Lamb(variables), [[0.3, -0.2], [0.3, -0.2]], 0.01, 1)
    direction = np.array([1 + 0.03, -1 + 0.04])
    moved = 0.01 * 5 * direction / np.linalg.norm(direction)
    want = [3 - moved[0], 4 - moved[1]], [2.99, 4.01]
    for variable, value in zip(variables.values(), want, strict=True):
        np.testing.assert_allclose(variable, value, rtol=rounding.ONE_SUM)


def test_a_gradient_of_zero_moves_nothing_but_by_decay():
    variables = {"x/kernel": tf.Variable([3.0, 4.0])}
    apply(Lamb(variables), [[0.0, 0.0]], 0.01, 1)
    # The direction is the decay alone, and the ratio undoes its 0.01.
    np.testing.assert_allclose(
        variables["x/kernel"], [3 * 0.99, 4 * 0.99], rtol=rounding.ONE_SUM
    )
