"""Masking while reading: new masks every epoch, and the same after a resume."""

import numpy as np
import pytest
import tensorflow as tf

from data.pretraining.data_options import PretrainingDataOptions
from data.pretraining.dynamic_masking import _RowsRandom, mask_batches
from data.pretraining.masking import Masker
from data.records.input_pipeline import Shard
from tests.data.pretraining.support import CLS, MASK, SEP, WORDPIECES

OPTIONS = PretrainingDataOptions(max_seq_length=40, max_predictions_per_seq=5)
BATCH = 8


# [CLS], words, [SEP] and padding.
ROW = np.zeros(40, np.int32)
ROW[:30] = [CLS, *range(5, 28), *range(5, 10), SEP]


def examples(num_batches):
    """Batches of one and the same example: only masks can differ."""
    one = {
        "input_ids": ROW,
        "input_mask": (ROW > 0).astype(np.int32),
        "segment_ids": np.zeros(40, np.int32),
        "next_sentence_labels": np.zeros(1, np.int32),
    }
    dataset = tf.data.Dataset.from_tensors(one).repeat(num_batches * BATCH)
    return dataset.batch(BATCH, drop_remainder=True)


def mask(batches, seed=7, **place):
    masker = Masker(WORDPIECES, OPTIONS)
    return mask_batches(batches, masker, seed=seed, batch_size=BATCH, **place)


def masked(num_batches, **options):
    return list(mask(examples(num_batches), **options).as_numpy_iterator())


def test_what_is_masked_stands_in_the_labels_and_nowhere_else():
    for batch in masked(4):
        assert (batch["masked_lm_weights"].sum(axis=1) == 4).all()  # 15 % of 30
        positions = batch["masked_lm_positions"][:, :4]
        labels = batch["masked_lm_ids"][:, :4]
        assert (labels == ROW[positions]).all()
        assert (batch["input_ids"] == MASK).any()
        restored = batch["input_ids"].copy()
        np.put_along_axis(restored, positions, labels, axis=1)
        assert (restored == ROW).all()


def test_shapes_are_static_for_tpus():
    for name, spec in mask(examples(1)).element_spec.items():
        assert spec.shape.is_fully_defined(), name
        assert spec.dtype in (tf.int32, tf.float32)


def test_every_batch_and_seed_has_masks_of_its_own():
    batches = masked(6) + masked(1, seed=8)
    assert len({b["masked_lm_positions"].tobytes() for b in batches}) == 7


def test_a_resumed_run_sees_the_masks_of_an_uninterrupted_one():
    resumed = masked(4, first_example=2 * BATCH)
    for expected, got in zip(masked(6)[2:], resumed, strict=True):
        for name in expected:
            np.testing.assert_array_equal(got[name], expected[name])


@pytest.mark.parametrize("count", [2, 8])
def test_workers_see_the_masks_of_one(count):
    batches = examples(5)
    whole = list(mask(batches, first_example=3 * BATCH))
    for i in range(count):
        shard = Shard(i, count)
        rows = shard.rows_of(BATCH)
        own = batches.map(
            lambda batch, rows=rows: {name: batch[name][rows] for name in batch}
        )
        found = mask(own, first_example=3 * BATCH, shard=shard)
        for expected, got in zip(whole, found, strict=True):
            for name, values in got.items():
                np.testing.assert_array_equal(values, expected[name][rows])


def test_a_mask_does_not_depend_on_the_other_rows():
    rng = np.random.default_rng(5)
    places = np.array([40, 41, 7])
    for options in {}, {"max_ngram_size": 3}, {"do_whole_word_mask": True}:
        masker = Masker(WORDPIECES, OPTIONS.replace(**options))
        ids = rng.integers(5, 30, (3, 40))
        lengths = np.array([40, 9, 23])
        whole = masker.mask(ids, lengths, _RowsRandom(3, places))
        for i in range(3):
            alone = masker.mask(
                ids[i : i + 1], lengths[i : i + 1], _RowsRandom(3, places[[i]])
            )
            for expected, got in zip(whole, alone, strict=True):
                np.testing.assert_array_equal(got[0], expected[i])


def test_the_numbers_of_rows_are_splitmix64s():
    # Pure Python, after Steele, Lea and Flood (2014), figure 16.
    def mixed(x):
        x = (x + 0x9E3779B97F4A7C15) % 2**64
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    # The first numbers of state 0, as the C code of the xoshiro project
    # prints them.
    assert mixed(0) == 0xE220A8397B1DCDAF
    assert mixed(0x9E3779B97F4A7C15) == 0x6E789E6AA1B965F4
    for seed in (0, 12345, -1):
        rows = _RowsRandom(seed, np.array([0, 1, 10**10]))
        got = rows.integers(1 << 40, size=(3, 4))
        chances = rows.random((3, 2))
        for i, place in enumerate((0, 1, 10**10)):
            state = mixed((mixed(seed % 2**64) + place) % 2**64)
            for j in range(4):
                assert got[i, j] == mixed(
                    (state + j * 0x9E3779B97F4A7C15) % 2**64
                ) % (1 << 40)
            bits = mixed((state + (1 << 32) * 0x9E3779B97F4A7C15) % 2**64)
            assert chances[i, 0] == (bits >> 11) / 2**53


def test_the_numbers_of_rows_are_even():
    chances = _RowsRandom(1, np.arange(1000)).random((1000, 100))
    assert 0 <= chances.min() < 1e-4 and 1 - 1e-4 < chances.max() < 1
    # Of 100,000 even numbers; 5 standard deviations.
    assert abs(chances.mean() - 0.5) < 5 * np.sqrt(1 / 12 / 1e5)
    for a, b in (
        (chances[:-1], chances[1:]),  # neighbouring examples
        (chances[:, :-1], chances[:, 1:]),  # neighbouring places
    ):
        correlation = np.corrcoef(a.ravel(), b.ravel())[0, 1]
        assert abs(correlation) < 5 / np.sqrt(a.size)
