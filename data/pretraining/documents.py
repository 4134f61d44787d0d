"""Tells the documents of a row apart, in examples of --join_documents."""

import numpy as np
import tensorflow as tf
from absl import logging

from data.records import input_pipeline, reading
from data.records.input_pipeline import RecordFiles

_NUM_CHECKED = 1000  # records of the input whose separators are counted


def check(files: RecordFiles, sep_id: int, vocab_file: str) -> None:
    """Checks that the wordpiece which ends a document is in every row.

    Logs a warning if no row has several documents.

    Args:
      files: pretraining records.
      sep_id: id of [SEP].
      vocab_file: where it comes from, for the error.

    Raises:
      ValueError: the records are sentence pairs, or do not end with [SEP].
    """
    if any(spec.name == "next_sentence_labels" for spec in files.specs):
        raise ValueError(
            f"--separate_documents: {files.paths[0]} holds sentence pairs, "
            "whose parts must see each other; write records with "
            "create_pretraining_data.py --next_sentence_prediction=false "
            "--join_documents."
        )
    first = next(iter(input_pipeline.file_order(files).batch(_NUM_CHECKED)))
    rows = reading.parse_batch(files.specs, first)
    separators = _is_separator(rows, sep_id).numpy()
    ends = rows["input_mask"].numpy().sum(axis=1) - 1
    if not separators[np.arange(len(ends)), ends].all():
        raise ValueError(
            f"{files.paths[0]}: not every record ends with the [SEP] of "
            f"--vocab_file={vocab_file}, id {sep_id}; give the vocabulary that "
            "create_pretraining_data.py was given."
        )
    if separators.sum(axis=1).max() == 1:
        logging.warning(
            "--separate_documents: each of the first %d records (%s) has one "
            "document, so there is nothing to separate; "
            "create_pretraining_data.py --join_documents writes several.",
            len(ends),
            files.paths[0],
        )


def number_documents(batches: tf.data.Dataset, sep_id: int) -> tf.data.Dataset:
    """Adds the number of its document to each wordpiece.

    Args:
      batches: feature name -> tensor [B, length], masked or not.
      sep_id: id of [SEP], which ends every document of a row.

    Returns:
      The batches with `document_ids` int32 [B, S], from 0 in each row; [CLS]
      has that of the first document, padding that of a further one.
    """

    def add(batch):
        is_separator = tf.cast(_is_separator(batch, sep_id), tf.int32)
        numbers = tf.cumsum(is_separator, axis=1, exclusive=True)
        return batch | {"document_ids": numbers}

    return batches.map(
        add, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    ).prefetch(tf.data.AUTOTUNE)


def _is_separator(batch, sep_id):
    """Whether each wordpiece ends a document: bool [B, S]."""
    found = tf.equal(batch["input_ids"], sep_id)
    if "masked_lm_positions" not in batch:
        return found
    # A masked wordpiece may have become a random one, and so a [SEP].
    masked = tf.one_hot(
        batch["masked_lm_positions"],
        batch["input_ids"].shape[1],
        on_value=True,
        off_value=False,
    ) & (batch["masked_lm_weights"][:, :, tf.newaxis] > 0)
    return found & ~tf.reduce_any(masked, axis=1)
