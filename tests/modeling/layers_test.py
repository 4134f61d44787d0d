import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from modeling import attention, layers
from modeling.kernels import Form, form
from tests.support import rounding
from tests.support.small_model import SMALL


@pytest.mark.parametrize("chosen", [Form.STANDARD, Form.COMPILED])
@pytest.mark.parametrize("activation", ["linear", "gelu"])
@pytest.mark.parametrize(
    # The sum is cut off to 8 bits, see `rounding` (11 in float16). Each of the
    # rows is rounded, too: 4,096 of them to 1/64 of a unit in the mean, 5 times
    # the sum in size, of which 6 deviations are half a unit.
    ("dtype", "tolerance"),
    [
        # Both sums of 4,096 terms, in different orders.
        ("float32", rounding.most(1, "float32", 2 * 4096)),
        ("mixed_bfloat16", 2.5 * rounding.UNITS["bfloat16"]),
        ("mixed_float16", 2.5 * rounding.UNITS["float16"]),
    ],
)
def test_a_bias_gradient_loses_no_rows(dtype, tolerance, activation, chosen):
    # Summed in bfloat16, a sum of 40 does not grow by what is below 0.08.
    num_rows, units = 4096, 8
    x = tf.random.stateless_normal([num_rows, 4], [1, 2])
    upstream = 0.01 + 0.05 * tf.random.stateless_normal(
        [num_rows, units], [3, 4]
    )
    gradients = []
    for policy, how in ((dtype, chosen), ("float32", Form.STANDARD)):
        layer = layers.Dense(
            units, stddev=0.02, activation=activation, dtype=policy
        )
        layer.build((None, 4))
        layer.kernel.assign(tf.random.stateless_normal([4, units], [5, 6]))

        @tf.function
        def step(x, layer=layer, how=how):
            with form(how), tf.GradientTape() as tape:
                y = layer(tf.cast(x, layer.compute_dtype))
                total = tf.reduce_sum(tf.cast(y, tf.float32) * upstream)
            return tape.gradient(total, layer.bias.value)

        gradients.append(step(x).numpy())
    ours, truth = gradients
    np.testing.assert_allclose(ours, truth, atol=tolerance * abs(truth).max())


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
@pytest.mark.parametrize("is_on_gpu", [False, True])
def test_scores_of_attention_do_not_overflow(monkeypatch, policy, is_on_gpu):
    monkeypatch.setattr(attention, "has_gpu", lambda: is_on_gpu)
    config = dataclasses.replace(SMALL, hidden_size=64, num_attention_heads=1)
    layer = attention.SelfAttention(config, dtype=policy)
    # A product of 64 * 40 * 40 = 102,400; float16 ends at 65,504.
    x = tf.fill([3, 64], 40.0)
    layer.build(x.shape)
    for projection in (layer.query, layer.key):
        projection.kernel.assign(tf.eye(64))
    _, probabilities = layer(x, tf.zeros([1, 1, 1, 3]))
    np.testing.assert_allclose(probabilities, 1 / 3, rtol=2**-11)
