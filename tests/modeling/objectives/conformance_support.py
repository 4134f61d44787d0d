"""Small models and batches of every pretraining objective."""

import keras
import numpy as np
import tensorflow as tf

from modeling import checkpoints, objectives
from tests.support.small_model import SMALL
from training.config.objective_options import ObjectiveOptions
from training.config.run_options import TrainOptions
from training.loop.trainer import Trainer

ROWS, LENGTH, PREDICTIONS = 8, 12, 3


def make_model(name, options, config=SMALL, dtype="float32"):
    """A model with the same weights whenever it is made."""
    keras.utils.set_random_seed(1)
    tokens = ObjectiveOptions().tokens(name)
    if tokens:
        ids = range(config.vocab_size - len(tokens), config.vocab_size)
        options = {"token_ids": ids} | options
    return objectives.get(name)(config, **options, dtype=dtype)


def make_batch(objective, rows=ROWS):
    """Rows of 5 to 12 wordpieces, with the features that an objective reads."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(5, LENGTH + 1, rows)
    lengths[:2] = 5, LENGTH
    mask = np.arange(LENGTH) < lengths[:, None]
    # Each row has a first wordpiece of its own, so that it can be learned.
    ids = rng.integers(1, SMALL.vocab_size, (rows, LENGTH))
    ids[:, 0] = np.arange(rows) + 1
    batch = {
        "input_ids": ids * mask,
        "input_mask": mask,
        "segment_ids": np.zeros_like(ids),
    }
    if objective.pairs is not False:
        batch["segment_ids"] = (np.arange(LENGTH) >= 3) * mask
        batch["next_sentence_labels"] = rng.integers(0, 2, (rows, 1))
    if objective.reads_masks:
        shape = rows, PREDICTIONS
        places = np.tile(np.arange(1, 5), (rows, 1))
        batch["masked_lm_positions"] = rng.permuted(places, axis=1)[
            :, :PREDICTIONS
        ]
        batch["masked_lm_ids"] = rng.integers(1, SMALL.vocab_size, shape)
    batch = {name: tf.cast(x, tf.int32) for name, x in batch.items()}
    if objective.reads_masks:
        weights = np.arange(PREDICTIONS) < rng.integers(1, 4, (rows, 1))
        batch["masked_lm_weights"] = tf.cast(weights, tf.float32)
    return batch


def train_options(folder, num_steps, **changes):
    return TrainOptions(
        output_dir=str(folder),
        train_batch_size=ROWS,
        num_train_steps=num_steps,
        num_warmup_steps=0,
        fuse=False,
        **{"learning_rate": 1e-2} | changes,
    )


def repeated(batch):
    return tf.data.Dataset.from_tensors(batch).repeat()


def draw_by_batch(model):
    """Makes what is drawn depend on the batch alone, as in evaluations."""
    losses = model.losses
    model.losses = lambda batch, weights, seed=None: losses(batch, weights)


def train_to_end(trainer, name, folder):
    """Trains to step 4, or resumes; returns the weights and slots by name."""
    batch = make_batch(objectives.get(name))
    trainer.train(
        lambda first_example, shard: repeated(batch), num_examples=ROWS
    )
    saved = checkpoints.Checkpoint(f"{folder}/model.ckpt-4")
    return {name: saved.read(name) for name in saved.shapes}


def trained(name, options, folder, seeded=True, **changes):
    """Trains a new model; not seeded: see `draw_by_batch`."""
    model = make_model(name, options)
    if not seeded:
        draw_by_batch(model)
    trainer = Trainer(model, train_options(folder, 4, **changes))
    return train_to_end(trainer, name, folder)
