"""Fine-tuning, prediction, vectors and exports, with random weights."""

import functools
import itertools
from pathlib import Path

import keras
import numpy as np

from benchmarks.ours import arithmetic
from benchmarks.ours.steps import train_options
from benchmarks.peers import inputs
from benchmarks.peers.protocol import elapsed, texts_of
from data.finetuning.feature_options import FeatureOptions, feature_specs
from data.finetuning.records import make_records
from data.records import input_pipeline, length_batches, tfrecord
from data.records.feature_spec import encode_examples
from data.squad import records, windows
from data.squad.articles import SquadData
from data.storage.json_files import write_json
from data.tasks import get_task
from data.text import packing
from data.text.tokenization import FullTokenizer
from data.text.vocabulary import load_vocab
from modeling import BertConfig, SpanModel, TaskModel
from modeling.checkpoints.vector_form import VectorForm
from modeling.loading import LoadedModel
from modeling.objectives.sentence_vectors import SentenceEncoder
from training.config import run_options
from training.export import saved_model
from training.export.predictor import Predictor
from training.export.serving import choose
from training.export.task_signatures import TaskServing
from training.finetuning.finetuner import Finetuning, FinetuningOptions
from training.loop.steps import with_fusion
from training.loop.trainer import Trainer
from training.start.description import TaskDescription
from training.start.source import Source
from training.start.start import Start
from training.vectors.texts import TextVectors

_LABELS = ("0", "1")


def _specs(case, is_training):
    """The features of a case's records."""
    if case["data"] == "squad":
        return windows.feature_specs(case["length"], is_training=is_training)
    return feature_specs("classification", case["length"], len(_LABELS))


def _open(case, path, is_training):
    """Opens a case's records as the programs do: every value is checked."""
    limits = {
        "input_ids": case["model"]["vocab_size"],
        "segment_ids": case["model"]["type_vocab_size"],
        "label_ids": len(_LABELS),
        "start_positions": case["length"],
        "end_positions": case["length"],
    }
    return input_pipeline.open_records(
        [path], _specs(case, is_training), limits=limits
    )


def _model_class(case):
    """What makes the model of a case."""
    if case["data"] == "squad":
        return SpanModel
    return functools.partial(
        TaskModel, kind="classification", num_labels=len(_LABELS)
    )


def _training_records(case):
    """Writes the records of a train set as the programs do.

    Returns:
      The file; and its places divided by those that are not padding.
    """
    name, path = case["data"], f"{case['folder']}/train.tf_record"
    tokenizer = FullTokenizer(case["vocab"])
    if name == "squad":
        articles = SquadData(f"{case['input']}/{inputs.SQUAD.format('train')}")
        sizes = windows.WindowOptions(max_seq_length=case["length"])
        questions = windows.Questions(
            articles.read(), tokenizer, sizes, is_training=True
        )
        report = records.make_records(questions, path)
    else:
        task = get_task(name, f"{case['input']}/{inputs.GLUE[name]}")
        options = FeatureOptions.of_task(task, case["length"])
        report = make_records(task, "train", path, tokenizer, options)
    return path, report.num_places / report.num_tokens


def finetuning(case):
    """A turn's part of an epoch: trimmed and grouped by length, or padded.

    Compiling is decided as in a run of one epoch. Its time counts as time of
    the trimmed epoch. Padded steps are all alike, so that only some are timed.
    """
    path, padded_by_real = _training_records(case)
    opened = _open(case, path, is_training=True)
    config = BertConfig(**case["model"])
    model = _model_class(case)(
        config, dtype=run_options.dtype_policy(case["precision"])
    )
    steps = case["steps"] or opened.count // case["rows"]
    return {
        "trimmed, grouped": _epoch(case, model, opened, steps, trim=True),
        "padded": _epoch(case, model, opened, case["padded_steps"], trim=False),
        "=padded_by_real": lambda: padded_by_real,
    }


def _epoch(case, model, opened, steps, trim):
    """A way that estimates an epoch from the seconds of some steps."""
    epoch = opened.count // case["rows"]
    options = with_fusion(
        train_options(case, epoch),
        model.config,
        seq_length=case["length"],
        trims=trim,
    )
    batches = length_batches.training_batches(
        opened,
        batch_size=case["rows"],
        seed=1,
        trim={"exact": not options.fuse} if trim else None,
        group_by_length=trim,
    )
    trainer, iterator = Trainer(model, options), iter(batches)
    turns = itertools.count()

    def run():
        turn = next(turns)
        if not turn:  # warm-up
            trainer.run_steps(iterator, first_step=1, num_steps=2)
            return []
        count = steps * turn // case["turns"]
        count -= steps * (turn - 1) // case["turns"]
        place = {"first_step": 3, "num_steps": count}
        run_steps = functools.partial(trainer.run_steps, iterator, **place)
        return [elapsed(run_steps) * epoch / steps]

    return run


def prediction(case):
    """All sequences, from records to probabilities."""
    spans = case["data"] == "squad"
    specs = _specs(case, is_training=False)
    folder = Path(case["folder"])
    path = str(folder / "sequences.tf_record")
    sequences = inputs.split(np.load(case["input"]))
    with tfrecord.RecordWriter(path) as writer:
        for record in encode_examples(specs, _columns(specs, sequences)):
            writer.write(record)
    config, config_file = BertConfig(**case["model"]), f"{folder}/config.json"
    write_json(config_file, case["model"])
    options = FinetuningOptions(
        bert_config_file=config_file,
        max_seq_length=case["length"],
        predict_batch_size=case["rows"],
        train=run_options.TrainOptions(
            output_dir=f"{folder}/run", num_train_steps=1
        ),
        device=run_options.DeviceOptions(precision=case["precision"]),
    )
    given = options, config, Source(None), _model_class(case)
    finetuner = Finetuning(Start(*given, trains=True))
    files = _open(case, path, is_training=False)
    predict = finetuner.outputs if spans else finetuner.predict
    sizes = config, case["rows"], case["length"], 0
    kinds = arithmetic.products(*sizes, training=False)
    ways = arithmetic.ways(case, kinds, len(sequences) / case["rows"])
    return {"": lambda: [elapsed(predict, files)]} | ways


def _columns(specs, sequences):
    """Pads sequences to features; those they do not have are zeros."""
    columns = {}
    for spec in specs:
        value = int(spec.name == "is_real_example")
        columns[spec.name] = np.full([len(sequences), spec.length], value)
    length = columns["input_ids"].shape[1]
    return columns | packing.pad_batch(sequences, length)


def latency(case):
    """One text after the other, from text to label."""
    keras.utils.set_random_seed(1)
    model = _model_class(case)(BertConfig(**case["model"]))
    description = TaskDescription(
        task_name="benchmark",
        kind="classification",
        max_seq_length=case["length"],
        do_lower_case=True,
        labels=_LABELS,
        is_pair=False,
    )
    serving = TaskServing(model, description, load_vocab(case["vocab"]))
    export_dir = f"{case['folder']}/export"
    exported = choose(serving, run_options.ServingOptions())
    saved_model.write(serving, exported, "", f"{export_dir}/1")
    predictor = Predictor.load(export_dir)
    texts = itertools.cycle(texts_of(case))

    def call(text):
        return predictor.predict([text])[0]["label"]

    return {
        "": lambda: [elapsed(call, next(texts)) for _ in range(case["calls"])]
    }


def encoding(case):
    """The vectors of all texts, as `bert.Model.encode` computes them."""
    config = BertConfig(**case["model"])
    model = SentenceEncoder(
        config,
        form=VectorForm(),
        dtype=run_options.dtype_policy(case["precision"]),
    )
    loaded = LoadedModel(
        kind="vectors",
        model=model,
        encoder=model.bert,
        config=config,
        tokenizer=FullTokenizer(case["vocab"]),
        labels=None,
        report=None,
        max_seq_length=case["length"],
        description=None,
        folder="",
    )
    vectors = TextVectors(loaded)
    texts = texts_of(case)
    encode = functools.partial(vectors.encode, batch_size=case["rows"])
    return {"": lambda: [elapsed(encode, texts)]}
