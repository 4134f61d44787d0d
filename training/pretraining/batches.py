"""The records of a pretraining run as batches, with what the files lack."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from data.pretraining import documents, short_rows
from data.pretraining.data_options import Wordpieces
from data.pretraining.dynamic_masking import mask_batches
from data.pretraining.masking import Masker
from data.pretraining.report import warn_of_few_predictions
from data.records import input_pipeline
from data.records.shard import WHOLE, Shard
from training.config.pretraining_options import PretrainingOptions
from training.config.run_options import TrainOptions


class Records:
    """The records of a run, as batches.

    See `documents.check` for errors.

    Attributes:
      train: records to train on; None = they are not needed.
      dev: records to evaluate on; None = they are not needed.
    """

    def __init__(
        self,
        options: PretrainingOptions,
        vocab: Mapping[str, int],
        train: input_pipeline.RecordFiles | None,
        dev: input_pipeline.RecordFiles | None,
    ):
        self._options = options
        self.train, self.dev = train, dev
        # Of rows of the whole length, and of short ones.
        self._maskers, self._sep_id = [None, None], None
        if options.masking:
            warn_of_few_predictions(options.masking)
            wordpieces = Wordpieces.from_vocab(vocab)
            share = min(1.0, 2 * options.masking.masked_lm_prob)
            short = options.masking.replace(masked_lm_prob=share)
            hows = options.masking, short
            self._maskers = [Masker(wordpieces, how) for how in hows]
        if options.separate_documents:
            self._sep_id = vocab["[SEP]"]
            for files in dict.fromkeys(filter(None, (train, dev))):
                documents.check(files, self._sep_id, options.vocab_file)

    def training_batches(
        self,
        first_example: int = 0,
        shard: Shard = WHOLE,
        arrange: input_pipeline.Arrange | None = None,
        short: bool = False,
    ) -> tf.data.Dataset:
        """A shard's rows of the batches after some examples.

        `short` ones have twice as many rows, of half the length.
        """
        place = {
            "batch_size": self._options.train.train_batch_size * (1 + short),
            "seed": self._options.train.seed,
            "first_example": first_example,
            "shard": shard,
        }
        batches = input_pipeline.training_batches(
            self.train, arrange=arrange, **place
        )
        if short:
            logging.info(
                "Short rows: each update reads %d rows of %d wordpieces.",
                *(place["batch_size"], self._options.max_seq_length // 2),
            )
            batches = input_pipeline.mapped(batches, short_rows.halved)
        return self._completed(batches, self._maskers[short], **place)

    def evaluation_batches(self, shard: Shard) -> tf.data.Dataset:
        """A shard's rows of the batches of an evaluation."""
        place = {"batch_size": self._options.eval_batch_size, "shard": shard}
        batches = input_pipeline.evaluation_batches(self.dev, **place)
        # All evaluations use the same masks, so that they can be compared; a
        # later command need not give the --seed of the training.
        place["seed"] = TrainOptions.seed
        return self._completed(batches, self._maskers[False], **place)

    def _completed(
        self, batches: tf.data.Dataset, masker: Masker | None, **place: Any
    ) -> tf.data.Dataset:
        """Adds to batches of records what is not in the files."""
        if masker:
            batches = mask_batches(batches, masker, **place)
        if self._sep_id is not None:
            batches = documents.number_documents(batches, self._sep_id)
        return batches
