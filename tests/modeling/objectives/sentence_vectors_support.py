"""Updates of a small SentenceEncoder under a strategy."""

from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from modeling import SentenceEncoder
from tests.support.small_model import SMALL
from training.config.run_options import TrainOptions
from training.devices.strategy import distribute
from training.loop import steps as loop_steps

ROWS, LENGTH = 8, 6
CASES = {
    "cosent": {"loss": "cosent"},
    "negatives": {"loss": "negatives", "num_parts": 2},  # cached
}


def rows(name):
    """Two batches of `ROWS` examples."""
    rng = np.random.default_rng(5)
    ids = rng.integers(1, 30, [2, 2 * ROWS, LENGTH]).astype(np.int32)
    mask = (np.arange(LENGTH) < rng.integers(2, 7, [2, 2 * ROWS, 1])) * 1
    batch = {}
    for number in range(2):
        batch[f"input_ids_{number}"] = ids[number]
        batch[f"input_mask_{number}"] = mask[number].astype(np.int32)
        batch[f"segment_ids_{number}"] = 0 * ids[number]
    if name == "cosent":
        batch["label_ids"] = rng.random([2 * ROWS, 1]).astype(np.float32)
    return batch


def updates(strategy, name):
    """Loss and norm of two updates, and a weight after them, of a case."""
    keras.utils.set_random_seed(1)
    train = TrainOptions(
        output_dir="",
        train_batch_size=ROWS,
        num_train_steps=9,
        learning_rate=1e-3,
        fuse=False,
    )
    # Compiling the update on each device would take most of the time.
    plain = mock.patch.object(loop_steps, "_compiles_update", lambda *_: False)
    with strategy.scope(), plain:
        model = SentenceEncoder(SMALL, **CASES[name])
        steps = loop_steps.TrainSteps(model, train)
        data = distribute(
            strategy,
            lambda shard: tf.data.Dataset.from_tensor_slices(rows(name)).batch(
                shard.part_of(ROWS), drop_remainder=True
            ),
        )
        metrics = steps.run(
            iter(data), tf.constant(1, tf.int64), tf.constant(2)
        ).numpy()
    values = metrics[..., 0] / metrics[..., 1]
    values = dict(zip(steps.metric_names, values.T.tolist(), strict=True))
    weight = steps.weights["bert/embeddings/word_embeddings"].numpy()
    return values | {"weights": weight.tolist()}
