"""Adding a bias: its gradient over many rows."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import layers
from modeling.fusion import Form, form


@pytest.mark.parametrize("chosen", [Form.PLAIN, Form.COMPILED])
@pytest.mark.parametrize("activation", ["linear", "gelu"])
@pytest.mark.parametrize(
    # Rounded once to 8 bits, each of the rows, and the sum once more.
    ("dtype", "tolerance"),
    [("float32", 1e-5), ("mixed_bfloat16", 8e-3), ("mixed_float16", 2e-3)],
)
def test_a_bias_gradient_loses_no_rows(dtype, tolerance, activation, chosen):
    # Summed in bfloat16, a sum of 40 does not grow by what is below 0.08.
    num_rows, units = 4096, 8
    x = tf.random.stateless_normal([num_rows, 4], [1, 2])
    upstream = 0.01 + 0.05 * tf.random.stateless_normal(
        [num_rows, units], [3, 4]
    )
    gradients = []
    for policy, how in ((dtype, chosen), ("float32", Form.PLAIN)):
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
