"""A run opens each file that it begins with once."""

import collections
import json
import shutil

import pytest
import tensorflow as tf

import modeling
from data.storage import files
from tests.support.classifier_support import write_table
from tests.support.pretraining_support import RECORDS, make_options
from tests.training.finetuning_support import options_of
from training.config.extraction_options import ExtractionOptions, VectorOptions
from training.config.finetuning_options import TrialOptions
from training.config.run_options import DeviceOptions
from training.many_runs import trials
from training.runs import pretraining, vectors


@pytest.fixture
def opened(monkeypatch):
    """How often each file was opened to read it, and each checkpoint."""
    counts = collections.Counter()

    def counted(open_file):
        def call(path, mode="r", **options):
            counts[str(path)] += "r" in mode
            return open_file(path, mode, **options)

        return call

    def read_checkpoint(prefix):
        counts[prefix] += 1
        return reader(prefix)

    reader = tf.compat.v1.train.NewCheckpointReader
    train = tf.compat.v1.train
    monkeypatch.setattr(train, "NewCheckpointReader", read_checkpoint)
    monkeypatch.setattr(tf.io.gfile, "GFile", counted(tf.io.gfile.GFile))
    monkeypatch.setattr(files._LocalDisk, "GFile", staticmethod(counted(open)))
    return counts


FOUND = "bert_config.json", "bert_model.ckpt", "vocab.txt"
ONCE = dict.fromkeys(FOUND, 1)


def times(opened, folder, *names):
    return {name: opened[f"{folder}/{name}"] for name in names}


def test_a_run_and_a_later_command(goldens, tmp_path, released, opened):
    """No flag gives the vocabulary and the configuration."""
    data, out = tmp_path / "data", tmp_path / "out"
    write_table(data, "single")
    options = options_of(
        goldens,
        tmp_path,
        finetuning={
            "init_checkpoint": f"{released}/bert_model.ckpt",
            "bert_config_file": None,
            "num_train_epochs": 1.0,
        },
        vocab_file=None,
        do_eval=False,
        given=frozenset(),
    )
    once = TrialOptions()
    trials.run(options, once)
    # The vocabulary is read, and copied to output_dir.
    assert times(opened, released, *FOUND) == ONCE | {"vocab.txt": 2}
    assert opened[f"{out}/task.json"] == 0
    # Tables are read as streams, anew for each use: labels, checks, records.
    assert max(times(opened, data, "train.jsonl", "test.jsonl").values()) <= 6
    opened.clear()
    shutil.rmtree(released)
    (out / "predictions.tsv").unlink()
    later = options.replace(do_train=False)
    trials.run(later.replace(init_checkpoint=None), once)
    names = ("bert_config.json", "vocab.txt", "task.json")
    assert times(opened, out, *names) == dict.fromkeys(names, 1)
    answers = (out / "predictions.tsv").read_text("utf-8").splitlines()
    loaded = modeling.load(str(out))
    assert (loaded.kind, loaded.labels) == ("classification", ["l0", "l1"])
    assert loaded.max_seq_length == 24
    assert answers[0].split("\t")[2:] == loaded.labels


def test_a_pretraining(goldens, tmp_path, released, opened):
    records = tmp_path / "records"
    shutil.copy(goldens / RECORDS, records)
    shard = {"file": "records", "counts": {"examples": 1}}
    manifest = tmp_path / f"records{files.MANIFEST_SUFFIX}"
    manifest.write_text(json.dumps({"made_from": {}, "shards": [shard]}))
    queries = tmp_path / "queries.txt"
    queries.write_text("the [MASK]\n")
    pretraining.run(
        make_options(goldens, tmp_path / "out").replace(
            bert_config_file=None,
            vocab_file=None,
            init_checkpoint=f"{released}/bert_model.ckpt",
            input_file=str(records),
            do_eval=True,
            max_eval_steps=1,
            do_predict=True,
            predict_file=str(queries),
            num_train_steps=1,
            given=frozenset(),
        )
    )
    # The vocabulary is read for queries and copied.
    assert times(opened, released, *FOUND) == ONCE | {"vocab.txt": 2}
    assert times(opened, tmp_path, "queries.txt", manifest.name) == {
        "queries.txt": 1,
        # For the case of the queries, the size of the text, the records, and
        # what the run remembers.
        manifest.name: 5,
    }
    kept = (tmp_path / "out/vocab.txt").read_bytes()
    assert kept == (goldens / "vocab.txt").read_bytes()


def test_vectors(goldens, released, opened, tmp_path):
    options = ExtractionOptions(
        input_file=str(goldens / "extract_features/input.txt"),
        output_file=str(tmp_path / "one.jsonl"),
        init_checkpoint=str(released / "bert_model.ckpt"),
        max_seq_length=64,
        vectors=VectorOptions(layers=(-1,)),
        device=DeviceOptions(),
    )
    vectors.run(options.replace(given=frozenset()))
    assert times(opened, released, *FOUND) == ONCE
    both = {
        "vocab_file": str(goldens / "vocab.txt"),
        "bert_config_file": str(goldens / "first_layer.json"),
        "output_file": str(tmp_path / "other.jsonl"),
    }
    vectors.run(options.replace(**both))
    found, given = (tmp_path / f"{name}.jsonl" for name in ("one", "other"))
    assert found.read_bytes() == given.read_bytes()
