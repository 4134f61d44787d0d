"""Tokenizers."""

import collections

import tensorflow as tf

from benchmarks.peers.protocol import elapsed, texts_of
from data.text.in_graph.tokenization import InGraphTokenizer
from data.text.tokenization import FullTokenizer

_TOKENIZED_AT_ONCE = 1024  # lines


def tokenizing_python(case):
    """Every line, one by one."""
    lines = texts_of(case)
    encode = FullTokenizer(case["vocab"]).encode
    return {"": lambda: [elapsed(lambda: [encode(line) for line in lines])]}


def tokenizing_in_graph(case):
    """Every line, in batches of tf.data, as many at once as threads."""
    lines = texts_of(case)
    lines = tf.data.Dataset.from_tensor_slices(lines)
    dataset = lines.batch(_TOKENIZED_AT_ONCE).map(
        InGraphTokenizer(case["vocab"]).tokenize,
        num_parallel_calls=case["threads"],
    )
    # A deque of length 0 drops what it takes.
    return {"": lambda: [elapsed(collections.deque, dataset, 0)]}
