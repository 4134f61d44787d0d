"""Seeds and random bits are the same wherever they are derived."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.kernels import seeds

SEEDS = [[0, 0], [3, -4], [2**31 - 1, -(2**31)], [-1, 2**31 - 1]]


def bits(shape, seed, dtype):
    """TensorFlow's own."""
    return tf.random.stateless_uniform(
        shape, seed, minval=None, maxval=None, dtype=dtype, alg="philox"
    )


def derived(seed):
    """Every derivation from a seed: what is found, and TensorFlow's own."""
    seed = tf.constant(seed)
    numbers = [tf.constant(7), tf.constant(-5), tf.constant(2**40, tf.int64)]
    found = [
        tf.stack(seeds.split_seed(seed, 5)),
        *(seeds.fold_in(seed, number) for number in numbers),
        seeds.random_bits([3, 7], seed, tf.uint32),
        seeds.uniform([3, 7], seed),
        # The seed of a step is int64.
        tf.stack(seeds.split_seed(tf.cast(seed, tf.int64), 2)),
    ]
    wanted = [
        tf.random.split(seed, 5, alg="philox"),
        *(tf.random.fold_in(seed, number, alg="philox") for number in numbers),
        bits([3, 7], seed, tf.uint32),
        tf.random.stateless_uniform([3, 7], seed, alg="philox"),
        bits([2, 2], tf.cast(seed, tf.int64), tf.int32),
    ]
    return found, wanted


@pytest.mark.parametrize("seed", SEEDS, ids=str)
def test_seeds_outside_of_xla_are_those_of_tensorflow(seed):
    with seeds.outside_xla():
        found, wanted = derived(seed)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_seeds_within_xla_are_the_same():
    _, wanted = derived(SEEDS[1])
    found, _ = tf.function(derived, jit_compile=True)(SEEDS[1])
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_scope_ends():
    with seeds.outside_xla():
        with seeds.outside_xla(False):
            assert not seeds.is_outside_xla()
        assert seeds.is_outside_xla()
    assert not seeds.is_outside_xla()


@pytest.mark.parametrize("has_gpu", [False, True])
def test_only_seeds_outside_of_xla_are_placed_on_the_host(monkeypatch, has_gpu):
    monkeypatch.setattr(seeds, "has_gpu", lambda: has_gpu)

    @tf.function
    def step(x, seed):
        with tf.control_dependencies([x + 1.0]):
            return seeds.split_seed(seed, 2)

    def prepared():
        graph = step.get_concrete_function(
            tf.TensorSpec([]), tf.TensorSpec([2], tf.int32)
        ).graph
        (found,) = (
            op
            for op in graph.get_operations()
            if op.type == "StatelessRandomGetKeyCounter"
        )
        return found

    with seeds.outside_xla():
        key = prepared()
    assert ("CPU" in key.device) == has_gpu
    assert (not key.control_inputs) == has_gpu
