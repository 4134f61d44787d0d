"""What a step computes, and how fast this machine multiplies matrices."""

import math

import tensorflow as tf

from benchmarks.peers.protocol import elapsed


def best_seconds(function, repeats=5):
    """Least time of some calls, after two warm-up calls."""
    return min([elapsed(function) for _ in range(2 + repeats)][2:])


def matrix_rate(case):
    """GFLOP/s of [B * S, H] x [H, 4 * H], as large as a block's products."""
    rows, hidden = case["rows"] * case["length"], case["model"]["hidden_size"]
    a = tf.cast(tf.random.normal([rows, hidden]), case["precision"])
    b = tf.cast(tf.random.normal([hidden, 4 * hidden]), case["precision"])
    shifts = tf.cast(tf.range(10), case["precision"])

    @tf.function
    def products():
        return [tf.matmul(a + i, b)[0, 0] for i in tf.unstack(shifts)]

    return 10 * 2 * rows * hidden * 4 * hidden / best_seconds(products) / 1e9


def products(config, batch, length, predictions=20, *, training=True):
    """Lists the matrix products of a step, in training with the gradient's.

    With 0 predictions the encoder alone is read, at the first wordpiece.
    Returns (how many, [leading dimensions], m, k, n, transpose_a, transpose_b)
    of each kind. The head's own [H, H] product is left out as too small.
    """
    rows, hidden = batch * length, config.hidden_size
    wide, heads = config.intermediate_size, config.num_attention_heads
    kinds = []

    def add(count, leading, m, k, n, transposed=False):
        """X [m, k] times w [k, n], and its two gradients."""
        kinds.append((count, leading, m, k, n, False, transposed))
        if not training:
            return
        kinds.append((count, leading, m, n, k, False, not transposed))
        if transposed:
            kinds.append((count, leading, n, m, k, True, False))
        else:
            kinds.append((count, leading, k, m, n, True, False))

    def add_blocks(count, read):
        """Blocks that are read at some positions of each example."""
        add(2 * count, [], rows, hidden, hidden)  # keys and values
        add(2 * count, [], batch * read, hidden, hidden)
        add(count, [], batch * read, hidden, wide)
        add(count, [], batch * read, wide, hidden)
        add(count, [batch, heads], read, hidden // heads, length, True)
        add(count, [batch, heads], read, length, hidden // heads)

    add_blocks(config.num_hidden_layers - 1, length)
    add_blocks(1, 1 + predictions)
    if predictions:
        add(1, [], batch * predictions, hidden, config.vocab_size, True)
    return kinds


def flops(kinds):
    """Multiplications and additions of `products`."""
    return sum(
        count * math.prod(leading) * 2 * m * k * n
        for count, leading, m, k, n, *_ in kinds
    )


def products_seconds(kinds, dtype):
    """Sum of the best times of `products`, one after the other."""
    total = 0.0
    for count, leading, m, k, n, ta, tb in kinds:
        a, b = (
            tf.cast(tf.random.normal([*leading, *shape]), dtype)
            for shape in ((k, m) if ta else (m, k), (n, k) if tb else (k, n))
        )
        product = tf.function(
            lambda a, b, ta=ta, tb=tb: tf.matmul(
                a, b, transpose_a=ta, transpose_b=tb
            )
        )
        total += count * best_seconds(lambda p=product, a=a, b=b: p(a, b))
    return total


def ways(case, kinds, times=1):
    """The functions of `cases.ARITHMETIC`.

    A call of the case computes the `products` so many times.
    """
    return {
        "=flops": lambda: flops(kinds) * times,
        "=matrix_rate": lambda: matrix_rate(case),
        "=products": lambda: products_seconds(kinds, case["precision"]) * times,
    }
