"""Masks batches while they are read, with new masks in every epoch.

The mask of an example depends only on the seed and on the example's position in
the stream of training examples. So a resumed run has the masks of an
uninterrupted one, and several workers have the masks of one worker.
"""

import numpy as np
import tensorflow as tf

from data.pretraining.masking import MaskedRows, Masker
from data.records.shard import WHOLE, Shard

# Increment of SplitMix64: 2 ** 64 divided by the golden ratio.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MASKED_AT_ONCE = 256  # rows


def mask_batches(
    batches: tf.data.Dataset,
    masker: Masker,
    *,
    seed: int,
    batch_size: int,
    first_example: int = 0,
    shard: Shard = WHOLE,
) -> tf.data.Dataset:
    """Adds masks to batches of unmasked examples.

    The batches, feature name -> tensor [batch_size / shard.count, length], have
    `input_ids` and `input_mask`. The result has `input_ids` masked, and
    `masked_lm_positions`, `masked_lm_ids` and `masked_lm_weights`. `batch_size`
    counts the rows of all workers; the masks depend on `seed` and on an
    example's place in the stream, from `first_example`.

    Source: RoBERTa (Liu et al. 2019), section 4.1.
    """
    size = shard.part_of(batch_size)
    # Several batches together take a third of the time and have the same masks.
    together = max(1, _MASKED_AT_ONCE // size)

    def mask(numbers, input_ids, input_mask):
        firsts = first_example + numbers * batch_size + shard.index * size
        places = firsts[:, np.newaxis] + np.arange(size)
        shape = len(numbers), size, -1
        rows = masker.mask(
            input_ids.reshape(places.size, -1),
            input_mask.sum(axis=2).ravel(),
            _RowsRandom(seed, places.ravel()),
        )
        return tuple(values.reshape(shape) for values in rows)

    def add_masks(numbers, batches):
        # NumPy, so that both kinds of masking use one algorithm. It runs in the
        # input pipeline, not in the step.
        masked = tf.numpy_function(
            mask,
            [numbers, batches["input_ids"], batches["input_mask"]],
            [tf.int32, tf.int32, tf.int32, tf.float32],
            stateful=False,
        )
        masked[0].set_shape(batches["input_ids"].shape)
        for tensor in masked[1:]:
            tensor.set_shape([None, size, masker.num_predictions])
        return batches | MaskedRows(*masked)._asdict()

    return (
        batches.enumerate()
        .batch(together)
        .map(add_masks, num_parallel_calls=2, deterministic=True)
        .unbatch()
        .prefetch(tf.data.AUTOTUNE)
    )


class _RowsRandom:
    """A replacement for a NumPy generator with a random stream for each row.

    The streams are SplitMix64 (Steele, Lea and Flood 2014). A NumPy generator
    for each row would take ten times as long. `examples` int64 [N] are
    positions in the stream of training examples.
    """

    def __init__(self, seed: int, examples: np.ndarray):
        start = _mixed(np.array([seed % (1 << 64)], np.uint64))
        self._states = _mixed(start + examples.astype(np.uint64))[:, None]
        self._num_draws = 0

    def random(self, size: tuple[int, int]) -> np.ndarray:
        """Returns float64 [N, size[1]] from 0 to 1."""
        return (self._bits(size) >> np.uint64(11)) * 2.0**-53

    def integers(self, high: int, size: tuple[int, int]) -> np.ndarray:
        """Returns int64 [N, size[1]] from 0 to high - 1."""
        return (self._bits(size) % np.uint64(high)).astype(np.int64)

    def _bits(self, size):
        """Returns uint64 [N, size[1]]; columns do not depend on size[1]."""
        columns = np.arange(size[1], dtype=np.uint64)
        columns += np.uint64(self._num_draws << 32)
        self._num_draws += 1
        return _mixed(self._states + columns * _STEP)


def _mixed(x: np.ndarray) -> np.ndarray:
    """Returns SplitMix64's output for a state."""
    x = x + _STEP
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
