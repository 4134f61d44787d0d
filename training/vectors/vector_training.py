"""A model of sentence vectors in its output_dir: trained and evaluated."""

import numpy as np
import tensorflow as tf

from data.records import length_batches
from data.records.distinct_batches import DistinctBatches
from data.records.input_pipeline import RecordFiles
from data.records.shard import Shard
from training.config.run_options import TrainOptions
from training.devices.strategy import check_batch_size
from training.finetuning.finetuner import Finetuning
from training.loop.steps import trimming
from training.start.start import Start

_INPUTS = ("input_ids", "input_mask", "segment_ids")


class VectorTraining(Finetuning):
    """A `SentenceEncoder` that is trained on examples of several texts.

    Args:
      start: what the run begins with.
      num_texts: C, texts of an example.
      num_parts: see `SentenceEncoder`.
      distinct: the batches to train on; None = shuffled examples.
    """

    def __init__(
        self,
        start: Start,
        *,
        num_texts: int,
        num_parts: int,
        distinct: DistinctBatches | None,
    ):
        super().__init__(start, batch_sizes=["eval_batch_size"])
        self._num_texts, self._distinct = num_texts, distinct
        count, train = self._strategy.num_replicas_in_sync, start.options.train
        check_batch_size(
            "train_batch_size", train.train_batch_size, count * num_parts
        )
        if train.xla and count > 1:
            raise ValueError(
                f"--xla compiles the gradient of one device, but {count} "
                "devices exchange their vectors within it; leave it out."
            )

    def _batches(
        self,
        train_files: RecordFiles,
        train: TrainOptions,
        first_example: int,
        shard: Shard,
    ) -> tf.data.Dataset:
        """See `Finetuning`; the texts of a batch are trimmed one by one."""
        if self._distinct:
            batches = self._distinct.dataset(first_example, shard)
        else:
            batches = length_batches.training_batches(
                train_files,
                batch_size=train.train_batch_size,
                seed=train.seed,
                first_example=first_example,
                shard=shard,
                shuffle_window=self.options.shuffle_window,
                group_by_length=self.options.group_by_length,
                num_choices=self._num_texts,
                trim=False,
            )
        options = trimming(train) if self._batching["trim"] else None
        return batches.map(
            lambda batch: _of_each_text(batch, self._num_texts, options),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        ).prefetch(tf.data.AUTOTUNE)

    def vectors(self, record_files: RecordFiles) -> np.ndarray:
        """Computes the vectors of a file of single texts, float32 [N, H]."""
        batch_size = self.options.eval_batch_size
        return self._collect(record_files, batch_size, "evaluating")["vectors"]


def _of_each_text(batch, num_texts, trim_options):
    """Divides inputs [B, C * S] to those of each text, [B, S] and shorter."""
    result = {n: x for n, x in batch.items() if n not in _INPUTS}
    for number in range(num_texts):
        part = {
            name: tf.split(batch[name], num_texts, axis=1)[number]
            for name in _INPUTS
        }
        if trim_options is not None:
            part = length_batches.trim_batch(part, **trim_options)
        result |= {f"{name}_{number}": x for name, x in part.items()}
    return result
