"""Which wordpieces of a row are one document."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from data.pretraining import documents
from data.records import feature_spec, input_pipeline
from tests.data.pretraining.support import CLS, MASK, SEP
from tests.support.records_support import write_examples

# Two documents and padding; one document.
IDS = [[CLS, 5, 6, SEP, 7, 8, SEP, 0], [CLS, 5, 6, 7, 8, 9, 10, SEP]]
NUMBERS = [[0, 0, 0, 0, 1, 1, 1, 2], [0] * 8]


def write(path, input_ids):
    """Opens records of rows without predictions."""
    ids = np.array(input_ids)
    specs = feature_spec.pretraining_features(8, 2)
    columns = {s.name: np.zeros((len(ids), s.length), s.dtype) for s in specs}
    columns |= {"input_ids": ids, "input_mask": (ids > 0).astype(int)}
    path = write_examples(path, specs, columns)
    specs = feature_spec.pretraining_features(8, 2, pairs=False)
    return input_pipeline.open_records([path], specs, limits={})


def numbered(**batch):
    batches = tf.data.Dataset.from_tensors(
        {name: tf.constant(values) for name, values in batch.items()}
    )
    (found,) = documents.number_documents(batches, SEP)
    return found["document_ids"].numpy().tolist()


def test_every_separator_ends_a_document():
    assert numbered(input_ids=IDS) == NUMBERS


def test_a_masked_wordpiece_ends_none():
    # The second wordpiece of the second row has become a [SEP], its fourth
    # stays; the second prediction of the first row is only filler.
    changed = [IDS[0], [CLS, SEP, 6, MASK, 8, 9, 10, SEP]]
    assert numbered(input_ids=changed) != NUMBERS
    assert (
        numbered(
            input_ids=changed,
            masked_lm_positions=[[1, 3], [1, 3]],
            masked_lm_weights=[[1.0, 0.0], [1.0, 1.0]],
        )
        == NUMBERS
    )


def test_only_rows_of_one_document_have_nothing_to_separate(tmp_path, caplog):
    path = tmp_path / "a.tf_record"
    documents.check(write(path, IDS), SEP, "vocab.txt")
    assert not caplog.records
    documents.check(write(path, IDS[1:]), SEP, "vocab.txt")
    (warning,) = caplog.messages
    assert warning.startswith("--separate_documents: each of the first 1000")
    assert str(path) in warning and "--join_documents" in warning


def test_another_vocabulary_is_refused_for_any_file(tmp_path):
    first = write(tmp_path / "a.tf_record", IDS)
    path = tmp_path / "b.tf_record"
    other = write(path, [[CLS, 5, 6, 7, 8, 9, 10, 11]])
    both = dataclasses.replace(
        first, segments=(*first.segments, *other.segments)
    )
    message = f"^{path}: .* ends with the .SEP. .id 3. of --vocab_file=vocab"
    with pytest.raises(ValueError, match=message):
        documents.check(both, SEP, "vocab.txt")
