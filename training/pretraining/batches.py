"""The records of a pretraining run as batches, with what the files lack."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import tensorflow as tf
from absl import logging

from data.pretraining import documents, short_rows
from data.pretraining.data_options import Wordpieces
from data.pretraining.dynamic_masking import mask_batches
from data.pretraining.masking import Masker
from data.records import input_pipeline
from data.records.input_pipeline import Arrange, RecordFiles
from data.records.shard import WHOLE, Shard
from training.config.pretraining_options import PretrainingOptions
from training.config.run_options import TrainOptions


class Records(NamedTuple):
    """The records of a run; None where they are not needed.

    Attributes:
      options: the run's options.
      train: records to train on.
      dev: records to evaluate on.
      masker: masks the records while they are read.
      short_masker: the same for short rows, see `--short_rows_share`.
      sep_id: id of [SEP], which ends a document, to tell documents apart.
    """

    options: PretrainingOptions
    train: RecordFiles | None
    dev: RecordFiles | None
    masker: Masker | None
    short_masker: Masker | None
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
        masker = short_masker = sep_id = None
        if options.masking:
            wordpieces = Wordpieces.from_vocab(vocab)
            masker = Masker(wordpieces, options.masking)
            share = min(1.0, 2 * options.masking.masked_lm_prob)
            short = dataclasses.replace(options.masking, masked_lm_prob=share)
            short_masker = Masker(wordpieces, short)
        if options.separate_documents:
            sep_id = vocab["[SEP]"]
            for files in dict.fromkeys(filter(None, (train, dev))):
                documents.check(files, sep_id, options.vocab_file)
        return cls(options, train, dev, masker, short_masker, sep_id)

    def training_batches(
        self,
        first_example: int = 0,
        shard: Shard = WHOLE,
        arrange: Arrange | None = None,
        short: bool = False,
    ) -> tf.data.Dataset:
        """A shard's rows of the batches after some examples.

        `short` ones have twice as many rows, of half the length.
        """
        place = {
            "batch_size": self.options.train.train_batch_size * (1 + short),
            "seed": self.options.train.seed,
            "first_example": first_example,
            "shard": shard,
        }
        batches = input_pipeline.training_batches(
            self.train, arrange=arrange, **place
        )
        if not short:
            return self._completed(batches, self.masker, **place)
        logging.info(
            "Short rows: each update reads %d rows of %d wordpieces.",
            *(place["batch_size"], self.options.max_seq_length // 2),
        )
        halved = batches.map(
            short_rows.halved, tf.data.AUTOTUNE, deterministic=True
        )
        return self._completed(halved, self.short_masker, **place)

    def evaluation_batches(self, shard: Shard) -> tf.data.Dataset:
        """A shard's rows of the batches of an evaluation."""
        place = {"batch_size": self.options.eval_batch_size, "shard": shard}
        batches = input_pipeline.evaluation_batches(self.dev, **place)
        # All evaluations use the same masks, so that they can be compared; a
        # later command need not give the --seed of the training.
        place["seed"] = TrainOptions.seed
        return self._completed(batches, self.masker, **place)

    def _completed(
        self, batches: tf.data.Dataset, masker: Masker | None, **place: Any
    ) -> tf.data.Dataset:
        """Adds to batches of records what is not in the files."""
        if masker:
            batches = mask_batches(batches, masker, **place)
        if self.sep_id is not None:
            batches = documents.number_documents(batches, self.sep_id)
        return batches
