"""Every program refuses records with values that its model has no row for."""

import pytest
import tensorflow as tf

from data.records import tfrecord
from modeling import BertConfig
from tests.support.classifier_support import write_table
from tests.support.pretraining_support import RECORDS, make_options
from tests.training import squad_support
from tests.training.finetuning_support import options_of
from training.pretraining import run_records
from training.runs import classifier, questions


def spoil(path, feature, value):
    """Replaces the last value of a feature in a file's first record."""
    first, *others = tfrecord.read_records(path)
    example = tf.train.Example.FromString(first)
    values = example.features.feature[feature].int64_list.value
    values[-1] = value
    with tfrecord.RecordWriter(path) as writer:
        for record in (example.SerializeToString(), *others):
            writer.write(record)


def spoil_made(monkeypatch, module, feature, value):
    """Has a module spoil the records that it makes."""
    make_records = module.make_record_file

    def make_spoiled(data, *args, **kwargs):
        report = make_records(data, *args, **kwargs)
        (path,) = (a for a in args if str(a).endswith(".tf_record"))
        spoil(path, feature, value)
        return report

    monkeypatch.setattr(module, "make_record_file", make_spoiled)


def refused(call, feature, value):
    """The call ends with the error for a value one above the greatest."""
    message = f"record 1: feature {feature} holds {value}, .* 0 to {value - 1}."
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("kind", "feature", "limit"),
    [
        ("single", "input_ids", 1200),
        ("single", "segment_ids", 2),
        ("single", "label_ids", 2),
        ("multilabel", "label_ids", 2),
        ("choice", "label_ids", 3),
        ("tagging", "label_ids", 2),
    ],
)
def test_of_a_task(goldens, tmp_path, monkeypatch, kind, feature, limit):
    write_table(tmp_path / "data", kind)
    spoil_made(monkeypatch, classifier, feature, limit)
    opened = classifier.Run(options_of(goldens, tmp_path, kind))
    refused(opened.make_records, feature, limit)


@pytest.mark.parametrize(
    ("feature", "limit"),
    [
        ("input_ids", 1200),
        ("segment_ids", 2),
        ("start_positions", 96),
        ("end_positions", 96),
    ],
)
def test_of_questions(goldens, tmp_path, monkeypatch, feature, limit):
    spoil_made(monkeypatch, questions, feature, limit)
    options = squad_support.make_options(
        goldens, tmp_path / "out", do_train=True, do_predict=False
    )
    refused(lambda: questions.run(options), feature, limit)


@pytest.mark.parametrize(
    ("feature", "limit"),
    [
        ("input_ids", 1200),
        ("segment_ids", 2),
        ("next_sentence_labels", 2),
        ("masked_lm_ids", 1200),
        ("masked_lm_positions", 64),
    ],
)
def test_of_pretraining(goldens, tmp_path, feature, limit):
    path = str(tmp_path / "a.tf_record")
    tf.io.gfile.copy(goldens / RECORDS, path)
    spoil(path, feature, limit)
    config = BertConfig.from_json_file(str(goldens / "bert_config.json"))
    options = make_options(goldens, tmp_path)
    refused(
        lambda: run_records.open_records(path, options, config, {}, []),
        feature,
        limit,
    )
