"""A small configuration, and records of every kind for it."""

import numpy as np

from data.records import feature_spec
from tests.support.records_support import write_examples

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
CLS, SEP, MASK = 2, 3, 4
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def write_vocab(path):
    """Writes a vocabulary for the records; returns the path."""
    words = [f"word{i}" for i in range(VOCAB - len(TOKENS))]
    path.write_text("\n".join([*TOKENS, *words]) + "\n", "utf-8")
    return str(path)


def write_records(path, *, masked=False, pairs=False):
    """Sixteen records of any ids, with padding; returns the path.

    They begin with [CLS] and end with [SEP] of `write_vocab`.
    """
    rng = np.random.default_rng(5)
    lengths = rng.integers(9, LENGTH + 1, (16, 1))
    mask = np.arange(LENGTH) < lengths
    columns = {
        "input_ids": rng.integers(1, VOCAB, (16, LENGTH)) * mask,
        "input_mask": mask.astype(int),
        "segment_ids": (np.arange(LENGTH) > 5) * mask * pairs,
        "masked_lm_positions": np.tile([1, 2, 3], (16, 1)),
        "masked_lm_ids": rng.integers(1, VOCAB, (16, PREDICTIONS)),
        "masked_lm_weights": np.ones((16, PREDICTIONS)),
        "next_sentence_labels": np.full((16, 1), feature_spec.NO_PAIR),
    }
    columns["input_ids"][:, 0] = CLS
    np.put_along_axis(columns["input_ids"], lengths - 1, SEP, axis=1)
    if pairs:
        columns["next_sentence_labels"] = rng.integers(0, 2, (16, 1))
    specs = feature_spec.pretraining_features(LENGTH, PREDICTIONS, masked)
    columns = {spec.name: columns[spec.name] for spec in specs}
    return write_examples(path, specs, columns)
