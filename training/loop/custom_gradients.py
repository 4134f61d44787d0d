"""Releases the custom gradients that TensorFlow keeps for ever."""

import contextlib

from tensorflow.python.framework import ops


@contextlib.contextmanager
def released():
    """Within this block, custom gradients are kept only for the current trace.

    `tf.custom_gradient`, which `all_reduce` uses, adds each gradient to a table
    that keeps the whole graph until the process ends: 30 MB for a model of two
    layers. A tape does not need the table. It is read only when a gradient is
    taken through a traced function or loop from outside of it.
    """
    # TensorFlow has no public way to remove an entry.
    table = ops.gradient_registry._registry
    before = set(table)
    try:
        yield
    finally:
        for name in table.keys() - before:
            del table[name]
