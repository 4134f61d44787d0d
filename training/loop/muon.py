"""Muon: orthogonalized updates for kernels, Adam for other variables."""

import tensorflow as tf

from training.loop import optimizers

MOMENTUM = 0.95
# Mean size of an element of a direction; Adam's is about as large.
SIZE = 0.2
# An iteration maps singular values s to a s + b s^3 + c s^5: the polynomial of
# this form that is nearest to 1 on the current image of [0.003, 1].
ITERATIONS = (
    (8.3837, -24.7659, 18.3571),
    (4.0434, -3.0114, 0.5695),
    (3.5056, -2.6267, 0.5257),
)


def muon_update(param, m, v, grad, *, rate, weight_decay, step=None):
    """One Muon step of a matrix, with Nesterov's momentum.

    Arguments and results are those of `optimizers.adam_update`; `v` does not
    change.

    Source: Jordan et al., 2024, https://kellerjordan.github.io/posts/muon, with
      the size and the weight decay of Liu et al., arXiv:2502.16982.
    """
    m = MOMENTUM * m + (1.0 - MOMENTUM) * grad
    ahead = MOMENTUM * m + (1.0 - MOMENTUM) * grad
    direction = SIZE * max(param.shape) ** 0.5 * orthogonalized(ahead)
    if weight_decay:
        direction += weight_decay * param
    return param - rate * direction, m, v


def orthogonalized(matrix: tf.Tensor) -> tf.Tensor:
    """Moves the singular values of a float32 matrix [N, M] to 0.35 to 1.65.

    Those below 0.003 of its norm (Frobenius) stay smaller; zeros stay zeros.

    Source: Amsel et al., "The Polar Express", arXiv:2505.16932, algorithm 1.
    """
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = tf.transpose(matrix) if is_tall else matrix
    x = tf.math.divide_no_nan(x, tf.norm(x))
    for a, b, c in ITERATIONS:
        gram = tf.matmul(x, x, transpose_b=True)
        x = a * x + tf.matmul(b * gram + c * tf.matmul(gram, gram), x)
    return tf.transpose(x) if is_tall else x


class Muon(optimizers.AdamWeightDecay):
    """Muon for the kernels of dense layers, Adam for all else.

    It has the slots and the clipping of `AdamWeightDecay`; `adam_v` of a kernel
    stays 0.
    """

    def rule_of(self, name):
        """Returns Muon's rule for a kernel."""
        return muon_update if name.endswith("/kernel") else self.new_values
