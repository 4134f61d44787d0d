"""This project's side of compare.py, by the functions its programs use.

| case | function |
| --- | --- |
| pretraining | `trainer.Trainer.run_steps`, one update a call |
| prediction | `Finetuning.predict` (SQuAD: `outputs`) of a record file |
| latency | `Predictor.predict` of an exported SavedModel, one text |
| tokenizing | `FullTokenizer.encode`; `InGraphTokenizer` in tf.data |
"""

import functools
import itertools
import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import train_step  # noqa: E402
from protocol import elapsed, serve  # noqa: E402

from benchmarks.peers import inputs  # noqa: E402
from data.finetuning.features import feature_specs  # noqa: E402
from data.in_graph.tokenization import InGraphTokenizer  # noqa: E402
from data.records import input_pipeline, tfrecord  # noqa: E402
from data.records.feature_spec import encode_examples  # noqa: E402
from data.squad import windows  # noqa: E402
from data.text.tokenization import FullTokenizer  # noqa: E402
from modeling import (  # noqa: E402
    BertConfig,
    PretrainingModel,
    SpanModel,
    TaskModel,
)
from training.config.options import (  # noqa: E402
    DeviceOptions,
    TrainOptions,
    dtype_policy,
)
from training.export import saved_model  # noqa: E402
from training.export.predictor import Predictor  # noqa: E402
from training.export.task_signatures import TaskServing  # noqa: E402
from training.finetuning.finetuner import Finetuning, FinetuningOptions  # noqa: E402
from training.loop.trainer import Trainer  # noqa: E402
from training.model_files.description import TaskDescription  # noqa: E402

_LABELS = ("0", "1")
_TOKENIZED_AT_ONCE = 1024  # lines


def pretraining(case):
    """One update, optimizer and dropout included."""
    config = BertConfig(**case["model"])
    model = PretrainingModel(config, dtype=dtype_policy(case["precision"]))
    rows, length = case["rows"], case["length"]
    options = TrainOptions(
        output_dir="unused",
        train_batch_size=rows,
        num_train_steps=100_000,
        fuse=True,
    )
    trainer = Trainer(model, options)
    batch = dict(np.load(case["input"]))
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())
    numbers = itertools.count(1)

    def step():
        trainer.run_steps(iterator, first_step=next(numbers), num_steps=1)

    flops = train_step.flops(config, rows, length, case["predictions"])
    kinds = train_step.products(config, rows, length, case["predictions"])
    return {
        "": lambda: [elapsed(step)],
        "=flops": lambda: flops,
        "=products": lambda: _products_seconds(kinds, case),
    }


def prediction(case):
    """All sequences, from records to probabilities."""
    spans = case["head"] == "span"
    length = case["length"]
    specs = (
        windows.feature_specs(length, is_training=False)
        if spans
        else feature_specs("classification", length, len(_LABELS))
    )
    folder = Path(case["folder"])
    path = str(folder / "sequences.tf_record")
    sequences = inputs.split(np.load(case["input"]))
    with tfrecord.RecordWriter(path) as writer:
        for record in encode_examples(specs, _columns(specs, sequences)):
            writer.write(record)
    finetuning = _finetuning(case, spans)
    files = input_pipeline.open_records([path], specs, limits={})
    predict = finetuning.outputs if spans else finetuning.predict
    config, rows = BertConfig(**case["model"]), case["rows"]
    # A forward pass without a head: a third of a step without predictions.
    flops = train_step.flops(config, 1, length, 0, reads_all=spans) / 3
    kinds = train_step.products(config, rows, length, 0, training=False)
    return {
        "": lambda: [elapsed(predict, files)],
        "=flops": lambda: flops * len(sequences),
        "=products": lambda: (
            _products_seconds(kinds, case) * len(sequences) / rows
        ),
    }


def _columns(specs, sequences):
    """Padded features of sequences, and zeros for what they do not say."""
    count = len(sequences)
    columns = {spec.name: np.zeros([count, spec.length], int) for spec in specs}
    for row, (ids, segments) in enumerate(sequences):
        columns["input_ids"][row, : len(ids)] = ids
        columns["segment_ids"][row, : len(ids)] = segments
        columns["input_mask"][row, : len(ids)] = 1
    if "is_real_example" in columns:
        columns["is_real_example"][:] = 1
    return columns


def _finetuning(case, spans):
    """A model with random weights, as the programs make one."""
    folder = case["folder"]
    config = Path(folder) / "bert_config.json"
    config.write_text(json.dumps(case["model"]))
    make_model = (
        SpanModel
        if spans
        else functools.partial(
            TaskModel, kind="classification", num_labels=len(_LABELS)
        )
    )
    return Finetuning(
        FinetuningOptions(
            bert_config_file=str(config),
            max_seq_length=case["length"],
            predict_batch_size=case["rows"],
            train=TrainOptions(output_dir=f"{folder}/run", num_train_steps=1),
            device=_device(case),
        ),
        make_model,
    )


def latency(case):
    """One text after the other, from text to label."""
    keras.utils.set_random_seed(1)
    model = TaskModel(
        BertConfig(**case["model"]), "classification", len(_LABELS)
    )
    serving = TaskServing(
        model,
        TaskDescription(
            task_name="benchmark",
            kind="classification",
            max_seq_length=case["length"],
            do_lower_case=True,
            model={},
            weights="",
            labels=_LABELS,
            is_pair=False,
            cut="longest",
            label_separator=",",
            document_context=False,
        ),
        case["vocab"],
    )
    export_dir = f"{case['folder']}/export"
    saved_model.write(serving, serving.samples(), "", export_dir)
    predictor = Predictor.load(export_dir)
    texts = itertools.cycle(json.loads(Path(case["input"]).read_text()))

    def call(text):
        return predictor.predict([text])[0]["label"]

    return {
        "": lambda: [elapsed(call, next(texts)) for _ in range(case["calls"])]
    }


def tokenizing_python(case):
    """Every line, one by one."""
    lines = json.loads(Path(case["input"]).read_text())
    encode = FullTokenizer(case["vocab"]).encode

    def run():
        for line in lines:
            encode(line)

    return {"": lambda: [elapsed(run)]}


def tokenizing_in_graph(case):
    """Every line, in batches of tf.data, as many at once as threads."""
    lines = json.loads(Path(case["input"]).read_text())
    dataset = (
        tf.data.Dataset.from_tensor_slices(lines)
        .batch(_TOKENIZED_AT_ONCE)
        .map(
            InGraphTokenizer(case["vocab"]).tokenize,
            num_parallel_calls=case["threads"],
        )
    )

    def run():
        for _ in dataset:
            pass

    return {"": lambda: [elapsed(run)]}


def _device(case):
    return DeviceOptions(precision=case["precision"])


def matrix_rate(case):
    """GFLOP/s of products as large as those of a block."""
    return train_step.matrix_rate(
        case["precision"],
        case["rows"] * case["length"],
        case["model"]["hidden_size"],
        5,
    )


def _products_seconds(kinds, case):
    """Time of the matrix products alone, at their own shapes."""
    return train_step.products_seconds(kinds, case["precision"], 5)


def make(case):
    """The case's way, see `protocol.serve`."""
    tf.config.threading.set_intra_op_parallelism_threads(case["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(case["threads"])
    ways = globals()[case["kind"]](case)
    if case["model"]:
        ways["=matrix_rate"] = lambda: matrix_rate(case)
    return ways, f"TensorFlow {tf.__version__}"


if __name__ == "__main__":
    serve(make)
