"""Masking while reading: new masks every epoch, and the same after a resume."""

import numpy as np
import tensorflow as tf

from data.pretraining.dynamic_masking import mask_batches
from data.pretraining.masking import Masker
from data.pretraining.options import PretrainingDataOptions
from tests.data.pretraining.support import CLS, MASK, SEP, WORDPIECES

OPTIONS = PretrainingDataOptions(max_seq_length=40, max_predictions_per_seq=5)
BATCH = 8


def examples(num_batches):
    """Batches of one and the same example: only masks can differ."""
    row = np.zeros(40, np.int32)
    row[:30] = [CLS, *range(5, 33 - 5), *range(5, 10), SEP]
    one = {
        "input_ids": row,
        "input_mask": (row > 0).astype(np.int32),
        "segment_ids": np.zeros(40, np.int32),
        "next_sentence_labels": np.zeros(1, np.int32),
    }
    dataset = tf.data.Dataset.from_tensors(one).repeat(num_batches * BATCH)
    return row, dataset.batch(BATCH, drop_remainder=True)


def masked(num_batches, first_example=0, seed=7):
    _, batches = examples(num_batches)
    masker = Masker(WORDPIECES, OPTIONS)
    dataset = mask_batches(
        batches,
        masker,
        seed=seed,
        batch_size=BATCH,
        first_example=first_example,
    )
    return dataset, list(dataset.as_numpy_iterator())


def test_what_is_masked_stands_in_the_labels_and_nowhere_else():
    row, _ = examples(1)
    for batch in masked(4)[1]:
        assert (batch["masked_lm_weights"].sum(axis=1) == 4).all()  # 15 % of 30
        for ids, positions, labels in zip(
            batch["input_ids"],
            batch["masked_lm_positions"][:, :4],
            batch["masked_lm_ids"][:, :4],
            strict=True,
        ):
            assert (labels == row[positions]).all()
            restored = ids.copy()
            restored[positions] = labels
            assert (restored == row).all()
        assert (batch["input_ids"] == MASK).any()


def test_shapes_are_static_for_tpus():
    dataset, _ = masked(1)
    for name, spec in dataset.element_spec.items():
        assert spec.shape.is_fully_defined(), name
        assert spec.dtype in (tf.int32, tf.float32)


def test_every_batch_has_masks_of_its_own():
    batches = masked(6)[1]
    positions = {b["masked_lm_positions"].tobytes() for b in batches}
    assert len(positions) == 6


def test_a_resumed_run_sees_the_masks_of_an_uninterrupted_one():
    whole = masked(6)[1]
    resumed = masked(4, first_example=2 * BATCH)[1]
    for expected, got in zip(whole[2:], resumed, strict=True):
        for name in expected:
            np.testing.assert_array_equal(got[name], expected[name])


def test_another_seed_masks_otherwise():
    a, b = masked(1)[1][0], masked(1, seed=8)[1][0]
    assert (a["masked_lm_positions"] != b["masked_lm_positions"]).any()
