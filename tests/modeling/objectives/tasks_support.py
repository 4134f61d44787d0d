"""Every kind of task: batches of random examples, and models of them."""

import keras
import numpy as np
import tensorflow as tf

from tests.support.classifier_support import columns_of

LABELS = {
    "classification": 3,
    "regression": 1,
    "multilabel": 5,
    "choice": 4,
    "tagging": 7,
}


def make_batch(kind, lengths, seq_length, num_labels, **columns):
    """Examples of some lengths, and further columns for each of them."""
    examples = columns_of(
        kind, lengths, seq_length=seq_length, num_labels=num_labels
    )
    return {
        name: tf.constant(x, tf.int32 if x.dtype == np.int64 else tf.float32)
        for name, x in (examples | columns).items()
    }


def with_random_head(make, *arguments, **options):
    """A model of the same weights each time; its head can tell texts apart."""
    keras.utils.set_random_seed(7)
    model = make(*arguments, **options)
    for variable in model.head.trainable_variables:
        variable.assign(np.random.default_rng(1).normal(size=variable.shape))
    return model
