"""A pretraining step with its optimizer update, on one batch in memory."""

import itertools
import resource

import numpy as np
import tensorflow as tf

from benchmarks.ours import arithmetic
from benchmarks.peers.protocol import elapsed
from modeling import BertConfig, objectives
from training.config.run_options import TrainOptions, dtype_policy
from training.loop.trainer import Trainer


def train_options(case, num_train_steps=100_000, **options):
    """Options of the training loop for a case."""
    return TrainOptions(
        output_dir="unused",
        train_batch_size=case["rows"],
        num_train_steps=num_train_steps,
        **options,
    )


def pretraining(case):
    """One update, with dropout, clipping and the optimizer."""
    config = BertConfig(**case["model"])
    model = objectives.get(case["objective"])(
        config,
        dtype=dtype_policy(case["precision"]),
        gradient_checkpointing=case["gradient_checkpointing"],
        **case["objective_options"],
    )
    trainer = Trainer(model, train_options(case, fuse=True))
    batch = dict(np.load(case["input"]))
    if case.get("separate_documents"):  # what the number is has no cost
        batch["document_ids"] = np.zeros_like(batch["input_ids"])
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())
    numbers = itertools.count(1)
    at_rest = _peak_mb()

    def step():
        trainer.run_steps(iterator, first_step=next(numbers), num_steps=1)

    sizes = case["rows"], case["length"], case["predictions"]
    return {
        "": lambda: [elapsed(step)],
        "=peak_mb": lambda: _peak_mb() - at_rest,
    } | arithmetic.ways(case, arithmetic.products(config, *sizes))


def _peak_mb():
    """Peak memory of this process until now."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
