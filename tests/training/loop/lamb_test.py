"""LAMB against an independent NumPy form, and by hand."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import rounding
from training.loop.lamb import Lamb
from training.loop.optimizers import CLIP_NORM

NAMES = ["a/kernel", "a/bias", "b/LayerNorm/gamma", "c/output_weights"]
SHAPES = [(3, 4), (4,), (4,), (2, 5)]


def apply(optimizer, gradients, lr, step):
    return optimizer.apply(
        [tf.constant(g, tf.float32) for g in gradients],
        tf.constant(lr, tf.float32),
        tf.constant(step, tf.int64),
    )


def numpy_lamb(params, gradients, rates, factors):
    """Algorithm 2 in float64, with the exclusions of the released code."""
    params = [p.astype(np.float64) for p in params]
    m, v = ([np.zeros_like(p) for p in params] for _ in range(2))
    for t, (grads, lr) in enumerate(zip(gradients, rates, strict=True), 1):
        norm = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in grads))
        for i, g in enumerate(grads):
            g = g * min(1.0, CLIP_NORM / norm)
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g**2
            r = (m[i] / (1 - 0.9**t)) / (np.sqrt(v[i] / (1 - 0.999**t)) + 1e-6)
            ratio = 1.0
            if not any(x in NAMES[i] for x in ("LayerNorm", "bias")):
                r = r + 0.01 * params[i]
                lengths = np.linalg.norm(params[i]), np.linalg.norm(r)
                ratio = lengths[0] / lengths[1] if all(lengths) else 1.0
            params[i] = params[i] - lr * factors[i] * ratio * r
    return params, m, v


@pytest.mark.parametrize("scale", [1e-3, 100.0])  # clipped or not
def test_thirty_updates_equal_numpy(scale):
    rng = np.random.default_rng(0)
    start = [rng.normal(size=s).astype(np.float32) for s in SHAPES]
    start[3][:] = 0  # takes the ratio 1 at the first update
    gradients = [
        [(scale * rng.normal(size=s)).astype(np.float32) for s in SHAPES]
        for _ in range(30)
    ]
    rates = rng.uniform(0, 1e-2, 30).astype(np.float32)
    factors = [0.5, 0.5, 1.0, 1.0]
    variables = {n: tf.Variable(p) for n, p in zip(NAMES, start, strict=True)}
    lamb = Lamb(variables, dict(zip(NAMES, factors, strict=True)))
    for t, (grads, lr) in enumerate(zip(gradients, rates, strict=True), 1):
        apply(lamb, grads, lr, t)
    params, m, v = numpy_lamb(start, gradients, rates, factors)
    for i, name in enumerate(NAMES):
        # Three roundings an update: of rate, product and sum.
        bound = rounding.most(1, "float32", 3 * 30)
        np.testing.assert_allclose(variables[name], params[i], atol=bound)
        # Up to ten roundings an update, of the norm and clipping too.
        share = rounding.most(1, "float32", 10 * 30)
        for slot, want in (("adam_m", m), ("adam_v", v)):
            np.testing.assert_allclose(
                lamb.slots[f"{name}/{slot}"],
                want[i],
                rtol=share,
                atol=rounding.ONE_SUM * np.abs(want[i]).max(),
            )


def test_the_first_update_by_hand():
    # Bias correction makes m / sqrt(v) the sign of the gradient: (1, -1), of
    # length sqrt(2). Without weight decay's part the weights (3, 4), of length
    # 5, would move by rate * 5 / sqrt(2) each; a bias by the rate.
    variables = {"x/kernel": [3.0, 4.0], "x/bias": [3.0, 4.0]}
    variables = {n: tf.Variable(v) for n, v in variables.items()}
    lamb = Lamb(variables)
    apply(lamb, [[0.3, -0.2], [0.3, -0.2]], 0.01, 1)
    direction = np.array([1 + 0.03, -1 + 0.04])
    moved = 0.01 * 5 * direction / np.linalg.norm(direction)
    np.testing.assert_allclose(
        variables["x/kernel"],
        [3 - moved[0], 4 - moved[1]],
        rtol=rounding.ONE_SUM,
    )
    np.testing.assert_allclose(
        variables["x/bias"], [2.99, 4.01], rtol=rounding.ONE_SUM
    )


def test_a_gradient_of_zero_moves_nothing_but_by_decay():
    variables = {"x/kernel": tf.Variable([3.0, 4.0])}
    lamb = Lamb(variables)
    apply(lamb, [[0.0, 0.0]], 0.01, 1)
    # The direction is the decay alone, and the ratio undoes its 0.01.
    np.testing.assert_allclose(
        variables["x/kernel"], [3 * 0.99, 4 * 0.99], rtol=rounding.ONE_SUM
    )
