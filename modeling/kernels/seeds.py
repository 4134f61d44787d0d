"""Seeds of dropout, int32 [2], and the random numbers that they give.

They are functions of the run's seed and of counters alone. A GPU would draw
each seed with a dozen kernels and wait for its copy on the host, which prepares
the next one.
"""

import contextlib
import contextvars

import tensorflow as tf

from modeling.kernels.scopes import during

# The algorithm is fixed, because XLA would choose another one. Only whole
# numbers are drawn: XLA draws other floats from the same seed and algorithm.
_PHILOX = "philox"
_PHILOX_NUMBER = 1  # the same for TensorFlow's operations

_is_outside = contextvars.ContextVar("is_outside", default=False)


def has_gpu() -> bool:
    """Returns whether operations run on a GPU."""
    return bool(tf.config.list_logical_devices("GPU"))


def on_tpu() -> bool:
    """Returns whether operations are traced for a TPU."""
    return isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)


def outside_xla(wanted: bool = True):
    """Declares that XLA does not compile the operations of the scope.

    Seeds then take a tenth of the operations, and with a GPU they are derived
    on its host before they are needed. Their values are the same. `wanted` is
    False for a scope that XLA may compile, which is the default.
    """
    return during(_is_outside, wanted)


def is_outside_xla() -> bool:
    """Returns whether it is known that XLA does not compile the operations."""
    return _is_outside.get()


def are_on_host() -> bool:
    """Returns whether seeds are derived on the host of a GPU."""
    return is_outside_xla() and has_gpu()


@contextlib.contextmanager
def placed():
    """A scope of operations on the host of a GPU, outside of XLA."""
    if not are_on_host():
        yield
        return
    # Recomputation makes all operations wait for the gradient of their block.
    with tf.device("CPU:0"), tf.control_dependencies(None):
        yield


def random_bits(
    shape: tf.Tensor, seed: tf.Tensor, dtype: tf.DType
) -> tf.Tensor:
    """Draws whole numbers from all values of a dtype, such as uint32.

    `shape` is an int32 vector, `seed` integer [2].
    """
    if not is_outside_xla():
        return tf.random.stateless_uniform(
            shape, seed, minval=None, maxval=None, dtype=dtype, alg=_PHILOX
        )
    with placed():
        key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=shape, key=key, counter=counter, alg=_PHILOX_NUMBER, dtype=dtype
    )


def uniform(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Draws float32 numbers from 0 to below 1, as tf.random.stateless_uniform.

    `shape` is an int32 vector, `seed` integer [2].
    """
    bits = random_bits(shape, seed, tf.uint32)
    return tf.cast(bits & (2**23 - 1), tf.float32) * 2.0**-23


def split_seed(seed: tf.Tensor | None, num: int) -> list[tf.Tensor | None]:
    """Derives `num` independent seeds, as tf.random.split; None from None."""
    if seed is None:
        return [None] * num
    with placed():
        return tf.unstack(random_bits([num, 2], seed, tf.int32))


def fold_in(seed: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """Derives the seed of a number, as tf.random.fold_in.

    Args:
      seed: integer [2].
      number: int32 or int64 scalar, such as a step or a replica.

    Returns:
      [2] with the number's dtype.
    """
    with placed():
        number = tf.convert_to_tensor(number)
        return tf.stack([random_bits([], seed, number.dtype), number])


def dropout_draws(
    x: tf.Tensor, seed: tf.Tensor | None, rate: float
) -> tf.Tensor | None:
    """Draws uint16 [shape of x] from a seed, int32 [2], for `block.drop`.

    They are half the work of 32 random bits for each element. All forms draw
    the same numbers, because they decide what a seed drops. Returns None, which
    drops nothing, if there is no seed or the rate is 0.
    """
    if seed is None or rate == 0.0:
        return None
    # A GPU would compute the product of the lengths, which the host then needs.
    size = tf.size(x)
    pairs = random_bits([(size + 1) // 2], seed, tf.uint32)
    draws = tf.reshape(tf.bitcast(pairs, tf.uint16), [-1])[:size]
    return tf.reshape(draws, tf.shape(x))
