"""Masks batches while they are read: a new mask in every epoch.

The mask of a batch is a function of the seed and of the batch's place in the
stream of training, so that a resumed run sees the masks of an uninterrupted
one.
"""

import numpy as np
import tensorflow as tf

from data.pretraining.masking import MaskedRows, Masker


def mask_batches(
    batches: tf.data.Dataset,
    masker: Masker,
    *,
    seed: int,
    batch_size: int,
    first_example: int = 0,
) -> tf.data.Dataset:
    """Adds masks to batches of unmasked examples.

    Args:
      batches: feature name -> tensor [batch_size, length]: `input_ids` and
        `input_mask` of `records.pretraining_features(..., masked=False)`.
      masker: masks rows.
      seed: of the masks.
      batch_size: examples of a batch.
      first_example: place of the first batch's first example in the stream
        of training, as of `input_pipeline.training_batches`.

    Returns:
      The batches with `masked_lm_positions`, `masked_lm_ids` and
      `masked_lm_weights`, and `input_ids` masked.

    Source: RoBERTa (Liu et al. 2019), section 4.1.
    """

    def mask(index, input_ids, input_mask):
        rng = np.random.default_rng([seed % (1 << 64), int(index)])
        return tuple(masker.mask(input_ids, input_mask.sum(axis=1), rng))

    def add_masks(number, batch):
        index = first_example + number * batch_size
        # NumPy, so that there is one algorithm for both kinds of masking; it
        # is part of the input, not of the step.
        masked = tf.numpy_function(
            mask,
            [index, batch["input_ids"], batch["input_mask"]],
            [tf.int32, tf.int32, tf.int32, tf.float32],
            stateful=False,
        )
        masked[0].set_shape(batch["input_ids"].shape)
        for tensor in masked[1:]:
            tensor.set_shape([batch_size, masker.num_predictions])
        return batch | MaskedRows(*masked)._asdict()

    return (
        batches.enumerate()
        .map(add_masks, num_parallel_calls=2, deterministic=True)
        .prefetch(tf.data.AUTOTUNE)
    )
