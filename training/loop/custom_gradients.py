"""What TensorFlow keeps of custom gradients, and how to let go of it."""

import contextlib

from tensorflow.python.framework import ops


@contextlib.contextmanager
def released():
    """Within it, custom gradients that are traced serve for this trace alone.

    Those of `tf.custom_gradient`, which `all_reduce` is one of, enter a table
    that lasts as long as the process, and holds the whole graph: 30 MB for each
    model of two layers. A tape does without the table; only a gradient through
    a traced function or loop, from outside of it, looks a custom one up there.
    """
    # Nothing public takes an entry out.
    table = ops.gradient_registry._registry
    before = set(table)
    try:
        yield
    finally:
        for name in table.keys() - before:
            del table[name]
