"""Learning rates: the original's schedule, and the factor of each layer."""

import re
from collections.abc import Iterable

import tensorflow as tf

from training.config.run_options import TrainOptions

ALL_LAYERS = -1
_BLOCK = re.compile(r"encoder/layer_(\d+)/")


def learning_rate(step: tf.Tensor, options: TrainOptions) -> tf.Tensor:
    """Linear warm-up, then linear decay that counts from step 0.

    At the end of the warm-up the rate therefore drops a little, from its peak
    to (1 - num_warmup_steps / num_train_steps) of it. The last update has rate
    0.

    `step` is the number of this update, counted from 1: when it runs, the
    original reads global_step after it is incremented. With num_train_minutes,
    it is the elapsed share of the time times num_train_steps. Returns a float32
    scalar.

    Source: `optimization.create_optimizer`.
    """
    done, end = tf.cast(step, tf.float32), options.num_train_steps
    share = tf.minimum(done, end) / float(end)
    decayed = options.learning_rate * (1.0 - share)
    if not (warmup := options.num_warmup_steps):
        return decayed
    warming = options.learning_rate * (done / float(warmup))
    return tf.where(done < warmup, warming, decayed)


def layer_rates(
    names: Iterable[str], options: TrainOptions
) -> dict[str, float]:
    """Returns the factor of the learning rate for each variable, by full name.

    The last block, the pooler and the head have factor 1. Each block below has
    `layerwise_lr_decay` times the factor of the block above it; the embeddings
    are below the first block. In an ELECTRA the head counts as two above the
    last block, which has `layerwise_lr_decay` squared.

    `trainable_layers` last blocks are trained beside pooler and head (0 = only
    these, -1 = everything); the frozen variables are left out. Raises
    ValueError if the model has fewer blocks.

    Source: Sun et al., "How to Fine-Tune BERT for Text Classification?",
      arXiv:1905.05583, section 3; for ELECTRA, `_get_layer_lrs` in
      google-research/electra, `model/optimization.py`.
    """
    names, trainable = list(names), options.trainable_layers
    blocks = {n: int(match[1]) for n in names if (match := _BLOCK.search(n))}
    num_blocks = 1 + max(blocks.values(), default=-1)
    if trainable > num_blocks:
        raise ValueError(
            f"--trainable_layers={trainable}, but the model has {num_blocks}; "
            f"give {num_blocks} or less, or {ALL_LAYERS} for everything."
        )
    below_head = 2 if any(name.startswith("electra/") for name in names) else 0
    rates = {}
    for name in names:
        if name in blocks:
            below_last = num_blocks - 1 - blocks[name]
        elif "/embeddings/" in name or "/embeddings_project/" in name:
            below_last = num_blocks
        else:
            rates[name] = 1.0
            continue
        if trainable == ALL_LAYERS or below_last < trainable:
            distance = below_last + below_head
            rates[name] = options.layerwise_lr_decay**distance
    return rates
