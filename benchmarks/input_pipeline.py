r"""Compares what the input of pretraining supplies with what a model needs.

  python benchmarks/input_pipeline.py --examples_per_second_per_device=2500

Writes random records (length 128, 20 predictions) to a temporary folder, reads
them there - so they lie in the page cache - on this host, as one of as many
hosts as the table says, and prints examples a second of that host, beside the
need of its devices. Rates are of batches taken in a compiled loop, as training
takes them, after the shuffle window is full. First stage by stage, on one host.
The processor time of an example says how many cores a need takes.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf
from absl import app, flags, logging

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from data.pretraining.dynamic_masking import mask_batches  # noqa: E402
from data.pretraining.masking import Masker  # noqa: E402
from data.pretraining.options import (  # noqa: E402
    PretrainingDataOptions,
    Wordpieces,
)
from data.records import feature_spec, input_pipeline, tfrecord  # noqa: E402
from data.records.input_pipeline import Shard  # noqa: E402

FLAGS = flags.FLAGS
_LENGTH, _PREDICTIONS, _VOCAB = 128, 20, 30522
_CLS, _SEP = 101, 102
_NUM_FILES = 8
# What is measured: name, devices, hosts, whether there is a file for each.
_SETUPS = (
    ("1 device", 1, 1, True),
    ("8 devices, 1 host", 8, 1, True),
    ("64 devices, 8 hosts, by file", 64, 8, True),
    ("64 devices, 8 hosts, by record", 64, 8, False),
    ("64 devices, 64 hosts, by record", 64, 64, False),
)


def define_flags():
    """The need, and how long to measure."""
    flags.DEFINE_list(
        "examples_per_second_per_device",
        ["100", "2500"],
        "What one device trains on; several to compare.",
    )
    flags.DEFINE_integer("batch", 32, "Examples of a batch of one device.")
    flags.DEFINE_integer("num_examples", 80_000, "In all files.")
    flags.DEFINE_float("seconds", 3.0, "Of each measurement.")
    flags.DEFINE_integer("repeats", 2, "Measurements of each; the best counts.")


def columns_of(specs, rng, count):
    """Random full examples, of the features that records have."""
    columns = {spec.name: np.zeros((count, spec.length)) for spec in specs}
    ids = rng.integers(1000, _VOCAB, (count, _LENGTH))
    ids[:, 0] = _CLS
    ids[:, [_LENGTH // 2, -1]] = _SEP
    columns |= {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": ids // ids * (np.arange(_LENGTH) > _LENGTH // 2),
    }
    if "masked_lm_ids" in columns:
        columns["masked_lm_ids"] = ids[:, :_PREDICTIONS]
        columns["masked_lm_positions"] += np.arange(1, _PREDICTIONS + 1)
        columns["masked_lm_weights"] += 1
    return {spec.name: columns[spec.name].astype(spec.dtype) for spec in specs}


def write(folder, num_files, masked):
    """Writes records; returns them opened."""
    specs = feature_spec.pretraining_features(
        _LENGTH, _PREDICTIONS, masked=masked
    )
    rng = np.random.default_rng(0)
    paths = [
        str(Path(folder, f"{num_files}{masked}{i}")) for i in range(num_files)
    ]
    for path in paths:
        with tfrecord.RecordWriter(path) as writer:
            columns = columns_of(specs, rng, FLAGS.num_examples // num_files)
            for record in feature_spec.encode_examples(specs, columns):
                writer.write(record)
    return input_pipeline.open_records(paths, specs, limits={})


def rate(batches):
    """Examples a second, the best of several times, and CPU seconds of one."""
    iterator = iter(batches)
    size = batches.element_spec["input_ids"].shape[0]

    @tf.function
    def take(count):
        for _ in tf.range(count):
            next(iterator)

    def timed(count):
        began = time.perf_counter(), time.process_time()
        take(tf.constant(count))
        return time.perf_counter() - began[0], time.process_time() - began[1]

    timed(20)  # fills the shuffle window
    count = max(20, int(20 * FLAGS.seconds / timed(20)[0]))
    walls, cpus = zip(
        *(timed(count) for _ in range(FLAGS.repeats)), strict=True
    )
    return size * count / min(walls), min(cpus) / size / count


def masker():
    """Masks wordpieces, of an uncased vocabulary's size."""
    return Masker(
        Wordpieces(
            cls_id=_CLS,
            sep_id=_SEP,
            mask_id=103,
            ids=list(range(1000, _VOCAB)),
            starts_word=[True] * _VOCAB,
        ),
        PretrainingDataOptions(
            max_seq_length=_LENGTH, max_predictions_per_seq=_PREDICTIONS
        ),
    )


def training(files, devices, hosts):
    """The batches of the first of several hosts, masked if need be."""
    place = {
        "batch_size": FLAGS.batch * devices,
        "seed": 1,
        "shard": Shard(0, hosts),
    }
    batches = input_pipeline.training_batches(files, **place)
    if any(spec.name == "masked_lm_ids" for spec in files.specs):
        return batches
    return mask_batches(batches, masker(), **place)


def print_stages(static, dynamic):
    """What each stage costs on one host."""
    size = FLAGS.batch
    stages = {
        "read, in file order": (
            input_pipeline.file_order(static)
            .repeat()
            .batch(size, drop_remainder=True)
            .map(lambda serialized: {"input_ids": serialized})
        ),
        "and parsed": input_pipeline.evaluation_batches(
            static, batch_size=size
        ),
        "and shuffled": training(static, 1, 1),
        "the same, without masks in the records": (
            input_pipeline.training_batches(dynamic, batch_size=size, seed=1)
        ),
        "and masked": training(dynamic, 1, 1),
    }
    for name, batches in stages.items():
        found, cpu = rate(batches)
        print(
            f"{name:40} {found:10,.0f} examples/s, {cpu * 1e6:6.1f} us each",
            flush=True,
        )


def main(_):
    """Prints the table."""
    logging.set_verbosity(logging.WARNING)
    needs = list(map(float, FLAGS.examples_per_second_per_device))
    with tempfile.TemporaryDirectory() as folder:
        opened = {
            (by_file, masked): write(
                folder, _NUM_FILES if by_file else 1, masked
            )
            for by_file in (True, False)
            for masked in (True, False)
        }
        print_stages(opened[True, True], opened[True, False])
        ratios = " ".join(f"{f'{need:,.0f}':>9}" for need in needs)
        print(
            f"{'':32} {'masking':8} examples/s of a host  CPU us  supply/need "
            f"at {ratios} examples/s a device"
        )
        for name, devices, hosts, by_file in _SETUPS:
            for masked in (True, False):
                found, cpu = rate(
                    training(opened[by_file, masked], devices, hosts)
                )
                times = " ".join(
                    f"{found / need / (devices / hosts):9.1f}" for need in needs
                )
                print(
                    f"{name:32} {'static' if masked else 'dynamic':8} "
                    f"{found:20,.0f} {cpu * 1e6:7.1f} {'':14} {times}",
                    flush=True,
                )


if __name__ == "__main__":
    define_flags()
    app.run(main)
