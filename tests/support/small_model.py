"""A small model, of which a test changes what it needs, and a batch for it."""

import numpy as np

from modeling import BertConfig

SMALL = BertConfig(
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)

IDS = np.array([[5, 6, 7, 8], [9, 8, 7, 0]], np.int32)
# Two examples of pretraining.
BATCH = {
    "input_ids": IDS,
    "input_mask": np.sign(IDS),
    "segment_ids": IDS // 8,
    "masked_lm_positions": IDS[:, :1] // 5,
    "masked_lm_ids": IDS[:, 1:2],
    "masked_lm_weights": np.ones([2, 1], np.float32),
    "next_sentence_labels": np.array([[1], [0]], np.int32),
}
