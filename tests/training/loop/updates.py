"""Updates by an optimizer, and the same ones in NumPy."""

import numpy as np
import tensorflow as tf

from tests.support import rounding

NAMES = ["a/kernel", "a/bias", "b/LayerNorm/gamma", "c/output_weights"]
SHAPES = [(3, 4), (4,), (4,), (2, 5)]
FACTORS = [0.5, 0.5, 1.0, 1.0]  # of the rate


def apply(optimizer, gradients, lr, step=1):
    return optimizer.apply(
        [tf.constant(g, tf.float32) for g in gradients],
        tf.constant(lr, tf.float32),
        tf.constant(step, tf.int64),
    )


def norm_of(gradients):
    return np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in gradients))


def numpy_updates(direction, params, gradients, rates):
    """Weights and moments in float64 after updates with a clipped gradient.

    `direction` is `(name, param, m, v, t)` -> what the rate is multiplied by;
    `params` are the first weights, of NAMES.
    """
    params = [p.astype(np.float64) for p in params]
    m, v = ([np.zeros_like(p) for p in params] for _ in range(2))
    for t, (grads, lr) in enumerate(zip(gradients, rates, strict=True), 1):
        for i, g in enumerate(grads):
            g = g * min(1.0, 1.0 / norm_of(grads))
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g**2
            moved = direction(NAMES[i], params[i], m[i], v[i], t)
            params[i] = params[i] - lr * FACTORS[i] * moved
    return params, m, v


def assert_thirty_updates_equal(kind, direction, scale):
    """Updates by an optimizer are those of `numpy_updates`."""
    rng = np.random.default_rng(0)
    start = [rng.normal(size=s).astype(np.float32) for s in SHAPES]
    start[3][:] = 0  # for LAMB: takes the ratio 1 at the first update
    gradients = [
        [(scale * rng.normal(size=s)).astype(np.float32) for s in SHAPES]
        for _ in range(30)
    ]
    rates = rng.uniform(0, 1e-2, 30).astype(np.float32)
    variables = {n: tf.Variable(p) for n, p in zip(NAMES, start, strict=True)}
    optimizer = kind(variables, dict(zip(NAMES, FACTORS, strict=True)))
    for t, (grads, lr) in enumerate(zip(gradients, rates, strict=True), 1):
        norm = apply(optimizer, grads, lr, t)
        # Two sums of 30 squares.
        bound = rounding.most(1, "float32", 2 * 30)
        np.testing.assert_allclose(norm, norm_of(grads), rtol=bound)
    params, m, v = numpy_updates(direction, start, gradients, rates)
    for i, name in enumerate(NAMES):
        # Three roundings an update: of rate, product and sum.
        bound = rounding.most(1, "float32", 3 * 30)
        np.testing.assert_allclose(variables[name], params[i], atol=bound)
        # Up to ten roundings an update, of the norm and clipping too.
        share = rounding.most(1, "float32", 10 * 30)
        for slot, want in (("adam_m", m), ("adam_v", v)):
            np.testing.assert_allclose(
                optimizer.slots[f"{name}/{slot}"],
                want[i],
                rtol=share,
                atol=rounding.ONE_SUM * np.abs(want[i]).max(),
            )
