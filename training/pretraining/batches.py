"""The records of a pretraining run as batches, with what the files lack."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import tensorflow as tf

from data.pretraining import documents
from data.pretraining.data_options import Wordpieces
from data.pretraining.dynamic_masking import mask_batches
from data.pretraining.masking import Masker
from data.records import input_pipeline
from data.records.input_pipeline import Arrange, RecordFiles
from data.records.shard import WHOLE, Shard
from training.config.pretraining_options import PretrainingOptions


class Records(NamedTuple):
    """The records of a run; None where they are not needed.

    Attributes:
      options: the run's options.
      train: records to train on.
      dev: records to evaluate on.
      masker: masks the records while they are read.
      sep_id: id of [SEP], which ends a document, to tell documents apart.
    """

    options: PretrainingOptions
    train: RecordFiles | None
    dev: RecordFiles | None
    masker: Masker | None
    sep_id: int | None

    @classmethod
    def of(
        cls,
        options: PretrainingOptions,
        vocab: Mapping[str, int],
        train: RecordFiles | None,
        dev: RecordFiles | None,
    ) -> Self:
        """Adds what the options ask for; see `documents.check` for errors."""
        masker = sep_id = None
        if options.masking:
            masker = Masker(Wordpieces.from_vocab(vocab), options.masking)
        if options.separate_documents:
            sep_id = vocab["[SEP]"]
            for files in dict.fromkeys(filter(None, (train, dev))):
                documents.check(files, sep_id, options.vocab_file)
        return cls(options, train, dev, masker, sep_id)

    def training_batches(
        self,
        first_example: int = 0,
        shard: Shard = WHOLE,
        arrange: Arrange | None = None,
    ) -> tf.data.Dataset:
        """A shard's rows of the batches after some examples."""
        place = {
            "batch_size": self.options.train.train_batch_size,
            "seed": self.options.train.seed,
            "first_example": first_example,
            "shard": shard,
        }
        batches = input_pipeline.training_batches(
            self.train, arrange=arrange, **place
        )
        return self._completed(batches, **place)

    def evaluation_batches(self, shard: Shard) -> tf.data.Dataset:
        """A shard's rows of the batches of an evaluation."""
        place = {"batch_size": self.options.eval_batch_size, "shard": shard}
        batches = input_pipeline.evaluation_batches(self.dev, **place)
        # All evaluations use the same masks, so that they can be compared.
        return self._completed(batches, seed=self.options.train.seed, **place)

    def _completed(
        self, batches: tf.data.Dataset, **place: Any
    ) -> tf.data.Dataset:
        """Adds to batches of records what is not in the files."""
        if self.masker:
            batches = mask_batches(batches, self.masker, **place)
        if self.sep_id is not None:
            batches = documents.number_documents(batches, self.sep_id)
        return batches
