"""A small configuration, and records of every kind for it."""

import numpy as np
import tensorflow as tf

from data.records import feature_spec

LENGTH, PREDICTIONS, VOCAB = 12, 3, 40
CONFIG = {
    "vocab_size": VOCAB,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
}


def write_records(path, *, masked=False, pairs=False):
    """Sixteen records of any ids, with padding; returns the path."""
    rng = np.random.default_rng(5)
    mask = np.arange(LENGTH) < rng.integers(9, LENGTH + 1, (16, 1))
    columns = {
        "input_ids": rng.integers(1, VOCAB, (16, LENGTH)) * mask,
        "input_mask": mask.astype(int),
        "segment_ids": (np.arange(LENGTH) > 5) * mask * pairs,
        "masked_lm_positions": np.tile([1, 2, 3], (16, 1)),
        "masked_lm_ids": rng.integers(1, VOCAB, (16, PREDICTIONS)),
        "masked_lm_weights": np.ones((16, PREDICTIONS)),
        "next_sentence_labels": np.full((16, 1), feature_spec.NO_PAIR),
    }
    if pairs:
        columns["next_sentence_labels"] = rng.integers(0, 2, (16, 1))
    specs = feature_spec.pretraining_features(LENGTH, PREDICTIONS, masked)
    columns = {spec.name: columns[spec.name] for spec in specs}
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in feature_spec.encode_examples(specs, columns):
            writer.write(record)
    return str(path)
