"""Numbers the documents within each row of --join_documents records."""

import numpy as np
import tensorflow as tf
from absl import logging

from data.records import input_pipeline, reading
from data.records.input_pipeline import RecordFiles

_NUM_CHECKED = 1000  # records of each file whose separators are counted


def check(files: RecordFiles, sep_id: int, vocab_file: str) -> None:
    """Checks that the first records of each file end with [SEP].

    Logs a warning if none of them has several documents. Raises ValueError if
    one does not end with [SEP], or if the records are sentence pairs.
    """
    if any(spec.name == "next_sentence_labels" for spec in files.specs):
        raise ValueError(
            f"--separate_documents: {files.paths[0]} holds sentence pairs, "
            "whose parts must see each other; give records of "
            "create_pretraining_data.py --join_documents."
        )
    most = 0  # documents of a row
    for path in files.paths:
        stream = input_pipeline.file_order(files.some([path]))
        first = next(iter(stream.batch(_NUM_CHECKED)))
        rows = reading.parse_batch(files.specs, first)
        separators = _is_separator(rows, sep_id).numpy()
        ends = rows["input_mask"].numpy().sum(axis=1) - 1
        if not separators[np.arange(len(ends)), ends].all():
            raise ValueError(
                f"{path}: not every record ends with the [SEP] (id {sep_id}) "
                f"of --vocab_file={vocab_file}; give the records' vocabulary."
            )
        most = max(most, separators.sum(axis=1).max())
    if most == 1:
        logging.warning(
            f"--separate_documents: each of the first {_NUM_CHECKED} records "
            f"of every file ({files.paths[0]}, ...) has one document; give "
            "records of create_pretraining_data.py --join_documents."
        )


def number_documents(batches: tf.data.Dataset, sep_id: int) -> tf.data.Dataset:
    """Adds `document_ids`, the number of its document, to each wordpiece.

    They are int32 [B, S], from 0 in each row; [SEP] ends every document. [CLS]
    has the first document's number, padding a further one.
    """

    def add(batch):
        is_separator = tf.cast(_is_separator(batch, sep_id), tf.int32)
        numbers = tf.cumsum(is_separator, axis=1, exclusive=True)
        return batch | {"document_ids": numbers}

    return input_pipeline.mapped(batches, add)


def _is_separator(batch, sep_id):
    """Whether each wordpiece ends a document: bool [B, S]."""
    found = tf.equal(batch["input_ids"], sep_id)
    if "masked_lm_positions" not in batch:
        return found
    # A masked wordpiece may have become a random one, and so a [SEP]. Filler is
    # moved to the position of [CLS].
    is_masked = batch["masked_lm_weights"] > 0
    positions = tf.where(is_masked, batch["masked_lm_positions"], 0)
    rows = tf.range(tf.shape(positions)[0])[:, tf.newaxis]
    places = tf.stack([rows + tf.zeros_like(positions), positions], axis=-1)
    no = tf.zeros(tf.shape(positions), tf.bool)
    return tf.tensor_scatter_nd_update(found, places, no)
