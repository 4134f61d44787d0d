"""Batches of random pretraining records, as one of several hosts reads them.

Records come from the page cache. Divide the rate by devices / hosts to get what
each device receives.
"""

import time

import tensorflow as tf

from benchmarks.peers import inputs
from benchmarks.peers.cases import VOCAB_SIZE
from data.pretraining.data_options import PretrainingDataOptions, Wordpieces
from data.pretraining.dynamic_masking import mask_batches
from data.pretraining.masking import Masker
from data.records import feature_spec, input_pipeline, tfrecord
from data.records.input_pipeline import Shard

_CALIBRATION = 20  # batches, which also fill the shuffle window


def reading(case):
    """Seconds of an example, in a compiled loop; `=cpu_us` of the last call."""
    files = _write(case)
    size = case["rows"] * case["devices"]
    place = {"batch_size": size, "seed": 1, "shard": Shard(0, case["hosts"])}
    batches = input_pipeline.training_batches(files, **place)
    if case["masking"] == "dynamic":
        batches = mask_batches(batches, _masker(case), **place)
    iterator, cpu_us = iter(batches), []
    examples = size // case["hosts"]

    @tf.function
    def take(count):
        for _ in tf.range(count):
            next(iterator)

    def timed(count):
        wall, cpu = time.perf_counter(), time.process_time()
        take(tf.constant(count))
        cpu_us[:] = [1e6 * (time.process_time() - cpu) / count / examples]
        return (time.perf_counter() - wall) / count / examples

    timed(_CALIBRATION)
    count = int(case["seconds"] / examples / timed(_CALIBRATION))
    return {
        "": lambda: [timed(max(_CALIBRATION, count))],
        "=cpu_us": lambda: cpu_us[0],
    }


def _write(case):
    """Writes random full records and opens them."""
    specs = feature_spec.pretraining_features(
        *(case["length"], case["predictions"]),
        masked=case["masking"] == "static",
    )
    rows = case["num_examples"] // case["num_files"]
    batch = inputs.pretraining_batch(
        *(VOCAB_SIZE, rows, case["length"], case["predictions"])
    )
    columns = {spec.name: batch[spec.name].astype(spec.dtype) for spec in specs}
    paths = [f"{case['folder']}/{i}" for i in range(case["num_files"])]
    for path in paths:
        with tfrecord.RecordWriter(path) as writer:
            for record in feature_spec.encode_examples(specs, columns):
                writer.write(record)
    # As run_pretraining.py: every value is checked.
    limits = {
        "input_ids": VOCAB_SIZE,
        "segment_ids": 2,
        "next_sentence_labels": 2,
        "masked_lm_ids": VOCAB_SIZE,
        "masked_lm_positions": case["length"],
    }
    return input_pipeline.open_records(paths, specs, limits=limits)


def _masker(case):
    """Masks wordpieces of a vocabulary of the uncased one's size."""
    wordpieces = Wordpieces(
        cls_id=101,
        sep_id=102,
        mask_id=103,
        ids=list(range(inputs.FIRST_WORD, VOCAB_SIZE)),
        starts_word=[True] * VOCAB_SIZE,
    )
    options = PretrainingDataOptions(
        max_seq_length=case["length"],
        max_predictions_per_seq=case["predictions"],
    )
    return Masker(wordpieces, options)
