"""How far rounded arithmetic may be from exact arithmetic.

The bound comes from the number of roundings, not from a machine. TensorFlow
rounds to nearest, with one exception: its own matrix product in bfloat16 on a
CPU, where oneDNN has no kernel for it, sums in float32 and then cuts the lower
bits off.

In 16 bits an operation rounds its result once, because sums are made in
float32. In float32 a sum of N terms rounds N times, and the order of its terms
depends on the processor.
"""

import numpy as np
import tensorflow as tf

# Half of the step between two numbers at 1. Rounded to nearest, a number has a
# relative error of up to a unit, and 0.4 units in the mean square; cut off, it
# has one of up to two units, and 0.8 units. So one unit bounds either. float32
# is never cut off, so half of its unit is enough.
UNITS = {"float32": 2.0**-25, "bfloat16": 2.0**-8, "float16": 2.0**-11}

# In a path through a block: two residual sums and two layer norms. What is
# rounded inside attention and feed-forward is less, by the share that these
# have in the sums: a hundredth with initial weights.
BLOCK = 4
EMBEDDINGS = 1
DENSE = 2  # the product, and its bias
POOLER = DENSE + 1

# Of normally distributed errors one in 500 million is larger.
_DEVIATIONS = 6

# Float32 outputs, losses and weights are promised to be as equal as this to
# those of the original (docs/results.md), of any number of devices
# (docs/distributed.md) and of XLA (docs/tpu.md). The arithmetic of the golden
# model allows it: a block has sums of 8 to 64 terms, together 420 roundings on
# a path, and two results of three blocks are compared. Then `most` is 9e-6 of
# values with a mean square of 1.
EQUAL = 1e-5

# After training whose weights agree to EQUAL. The largest of 27,000 errors is
# six deviations, and a path through the golden model has sums of 32 terms in
# four products of each of three blocks, and in a head: sqrt(13 * 32) deviations
# of up to EQUAL / 6 each, and six of them at most.
TRAINED_OUTPUTS = EQUAL * np.sqrt(13 * 32)  # 2e-4

# Norm of a gradient after such training, as a share. Weights have a deviation
# of 0.02, so that EQUAL is 5e-4 of one, in two factors of a product.
TRAINED_NORM = 2 * EQUAL / 0.02  # 1e-3

# Two results of a sum or two over the golden model's 32 units, of values with a
# mean square of 1: `most` of 31 roundings.
ONE_SUM = 1e-6

# The same, each of both written with six decimals: half of the last one more.
SIX_DECIMALS = ONE_SUM + 2 * 0.5e-6


def deviation(scale: float, dtype: str, num_roundings: int) -> float:
    """Root mean square of an error that independent roundings add up to.

    `scale` is that of what is rounded; one rounding comes after the other.
    """
    return scale * UNITS[dtype] * np.sqrt(num_roundings)


def most(scale: float, dtype: str, num_roundings: int) -> float:
    """The largest error to be expected among many, see `deviation`."""
    return _DEVIATIONS * deviation(scale, dtype, num_roundings)


def root_mean_square(values) -> float:
    """Of all elements, in float64."""
    return np.sqrt(np.mean(np.square(np.asarray(values, np.float64))))


def assert_equal(got, want, rtol=0.0, err_msg="") -> None:
    """Asserts that float32 arrays differ by `EQUAL` at most."""
    np.testing.assert_allclose(
        got, want, rtol=rtol, atol=EQUAL, err_msg=err_msg
    )


def assert_near(got, want, dtype, num_roundings, scale=None) -> None:
    """Asserts that an array differs from that of float32 by roundings only.

    There are `num_roundings` to `dtype` between the input and `got`. `scale`:
    see `deviation`; None = that of `want`.
    """
    want = np.asarray(want, np.float64)
    error = np.asarray(tf.cast(got, tf.float64)) - want
    if scale is None:
        scale = root_mean_square(want)
    found = root_mean_square(error)
    bound = deviation(scale, dtype, num_roundings)
    assert found <= bound, f"root mean square error {found} above {bound}"
    found, bound = np.abs(error).max(), most(scale, dtype, num_roundings)
    assert found <= bound, f"error {found} above {bound}"


def assert_all_near(got, want, dtype, num_roundings) -> None:
    """Asserts that results and gradients differ by roundings only.

    A gradient that is a small difference of large ones, as a query's behind a
    softmax, has the rounding of the large ones. Names of gradients do not begin
    with `loss` or `logits`.
    """
    gradients = [
        np.ravel(value)
        for name, value in want.items()
        if not name.startswith(("loss", "logits"))
    ]
    floor = UNITS[dtype] * root_mean_square(np.concatenate(gradients))
    for name, value in want.items():
        scale = max(root_mean_square(value), floor)
        assert_near(got[name], value, dtype, num_roundings, scale)
