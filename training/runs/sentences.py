"""A run of run_sentence_vectors.py."""

import dataclasses
import functools
import hashlib
import os
from typing import Any, NamedTuple

from absl import logging

from data.finetuning.feature_options import TextFeatures
from data.finetuning.records import make_records as make_record_file
from data.records import input_pipeline
from data.records.distinct_batches import DistinctBatches, text_batches
from data.storage.json_files import write_json
from data.text.tokenization import FullTokenizer
from data.vectors import retrieval, teacher_vectors
from data.vectors.text_sets import TextSets
from modeling.checkpoints import tf1
from modeling.checkpoints.vector_form import VectorForm
from modeling.objectives.sentence_vectors import SentenceEncoder
from training.config.vector_options import SentenceOptions
from training.devices.strategy import check_batch_size
from training.finetuning.best_checkpoint import BestCheckpoint, Choice
from training.finetuning.finetuner import Finetuning
from training.finetuning.metric_values import Results
from training.loop import events
from training.start import description, found_files
from training.start.start import Files, Start, check_outputs, read_files

_RESULTS = ("eval_results.txt", "metrics.json")
_RECORDS = {"train": "train.tf_record", "dev": "eval.tf_record"}
# What a later command in the folder need not say again.
_REMEMBERED = (
    *("loss", "similarity_scale", "task_name", "eval_task_name", "evaluation"),
    *("text_columns", "label_column", "separator", "quoted", "drop_missing"),
)


class Opened(NamedTuple):
    """A run whose files are read and checked; nothing is written yet.

    Attributes:
      options: the run's options, completed by `found_files`.
      form: how a text becomes a vector.
      sizes: the sizes of the vectors, the largest first.
      train: the examples to train on; None = do not train.
      dev: the pairs to evaluate on; None = do not evaluate.
      start: configuration, folder and first weights.
      tokenizer: splits texts into wordpieces of the vocabulary.
      described: `task.json` of output_dir.
      choice: see `BestCheckpoint`.
    """

    options: SentenceOptions
    form: VectorForm
    sizes: tuple[int, ...]
    train: TextSets | None
    dev: retrieval.PairSet | None
    start: Start
    tokenizer: FullTokenizer
    described: description.Description | None
    choice: Choice


class Inputs(NamedTuple):
    """The records of a run; None = do not train, or do not evaluate."""

    train: input_pipeline.RecordFiles | None
    dev: input_pipeline.RecordFiles | None


def run(options: SentenceOptions) -> Results:
    """Trains and evaluates after checking all inputs; returns the scores."""
    opened = open_run(options)
    inputs = make_records(opened)
    model = make_model(opened, inputs)
    results, weights = train_and_score(opened, inputs, model)
    describe(opened, weights)
    if options.do_train:
        model.finish()
    return results


def open_run(options: SentenceOptions) -> Opened:
    """Refuses missing files and weights that do not fit; writes no records."""
    found = _with_length(read_files(options, kinds=["vectors"]))
    options, config, tokenizer, _, described = found
    options.check_together()
    form, texts = _form_of(found), options.texts
    sizes = form.sizes(config.hidden_size)
    if form.pooling == "cls" and config.left_to_right:
        raise ValueError(
            "--pooling=cls: the model reads left to right, so that [CLS] sees "
            "only itself; give --pooling=mean."
        )
    names = ("train_file", "dev_file", "teacher_vectors")
    inputs = {name: getattr(texts, name) for name in names}
    names = (*_RESULTS, *_RECORDS.values())
    check_outputs(options.output_dir, inputs, names)
    start = _open_start(found, form)
    train, dev, names = None, None, {}
    if options.do_train:
        train = options.train_set
        next(train.examples("train"))
    if options.do_train and options.loss == "teacher":
        count = sum(1 for _ in train.examples("train"))
        vectors = teacher_vectors.read_teacher(texts.teacher_vectors, count)
        train = dataclasses.replace(train, vectors=vectors)
    if options.do_eval or options.watches:
        dev = retrieval.pair_set(options.dev_set.examples("dev"))
        names = {"dev": retrieval.names_at(dev, sizes)}
    choice = Choice.open(options.finetuning, names)
    opened = options, form, sizes, train, dev, start, tokenizer
    return Opened(*opened, described, choice)


def _open_start(found: Files, form: VectorForm) -> Start:
    options = found.options
    make_model = functools.partial(
        SentenceEncoder,
        form=form,
        loss=options.loss,
        num_texts=len(options.train_columns),
        scale=options.similarity_scale,
        num_parts=options.finetuning.train.gradient_accumulation_steps,
    )
    return Start(
        # The encoder computes in parts, because every example is compared
        # with all others of its batch.
        options.finetuning.replace(gradient_accumulation_steps=1),
        *(found.config, found.source, make_model),
        trains=options.do_train,
        heads=(),
    )


def _with_length(found: Files) -> Files:
    """Takes the longest text of a model of vectors that is not trained."""
    options, source = found.options, found.source.folder
    form = source and not found.described and VectorForm.find(source.path)
    is_said = options.given is None or "max_seq_length" in options.given
    if options.do_train or is_said or not form or not form.max_seq_length:
        return found
    length = min(form.max_seq_length, found.config.max_position_embeddings)
    logging.info("--max_seq_length=%d, as %s says.", length, source.path)
    return found._replace(options=options.replace(max_seq_length=length))


def _form_of(found: Files) -> VectorForm:
    """The form that the flags and the model's folder say.

    Raises ValueError if output_dir holds a model with another one, or a run
    with another loss.
    """
    options, folder = found.options, found.options.find("output_dir")
    before, source = VectorForm.find(folder), found.source.folder
    trained = before if tf1.has_run(folder) else None
    beside = source and VectorForm.find(source.path)
    if options.do_train or not found.described:
        before = None  # of a stopped run, or about another model
    here = None if description.names_model(options) else before
    base = trained or here or beside or before or VectorForm()
    length = options.finetuning.max_seq_length
    given = options.form.changed() | {"max_seq_length": length}
    form = dataclasses.replace(base, **given)
    if not trained:
        if beside and not options.do_train:
            changes = options.form.changed()
            found_files.warn_of_other_form(source.path, changes)
        return form
    data = getattr(found.described, "data", {})
    changed = {n: (getattr(trained, n), getattr(form, n)) for n in vars(form)}
    changed["loss"] = data.get("loss", options.loss), options.loss
    for name, values in changed.items():
        # A model can be evaluated at other sizes, and with another loss's data.
        is_fixed = options.do_train or name in ("pooling", "normalize")
        if values[0] not in (None, values[1]) and is_fixed:
            old, new = (
                ",".join(map(str, x)) if isinstance(x, tuple) else x
                for x in values
            )
            raise ValueError(
                f"--{name}={new}, but {folder} holds a model that was trained "
                f"with --{name}={old}; leave the flag out, or give another "
                "--output_dir. To start from the model's weights, give also "
                f"--init_checkpoint={folder}."
            )
    return form


def make_records(opened: Opened) -> Inputs:
    """Writes the records of a run to its output_dir, or finds them there."""
    train, dev, sizes = opened.train, opened.dev, opened.sizes
    if train:
        facts = {"target_size": int(train.scored)}
        if len(train.vectors):
            rotate = len(sizes) > 1
            vectors = teacher_vectors.fitted(train.vectors, sizes[0], rotate)
            train = dataclasses.replace(train, vectors=vectors)
            checksum = hashlib.sha256(vectors).hexdigest()
            facts = {"target_size": sizes[0], "vectors_sha256": checksum}
        facts["labels"] = opened.options.train_columns
        train = _records(opened, "train", train, **facts)
    return Inputs(train, dev and _records(opened, "dev", dev))


def _records(
    opened: Opened, name: str, texts: TextSets | retrieval.PairSet, **facts: Any
) -> input_pipeline.RecordFiles:
    """Writes train.tf_record or eval.tf_record, unless it exists."""
    path = os.path.join(opened.options.output_dir, _RECORDS[name])
    length = opened.options.finetuning.max_seq_length
    features = TextFeatures(max_seq_length=length, **facts)
    check = opened.start.check_input if name == "train" else None
    make_record_file(texts, name, path, opened.tokenizer, features, check)
    limits = {"input_ids": opened.start.config.vocab_size}
    return input_pipeline.open_records([path], features.specs, limits=limits)


def make_model(opened: Opened, inputs: Inputs) -> Finetuning:
    """The model in its output_dir, described there when training begins."""
    options, train = opened.options, opened.options.finetuning.train
    num_texts, distinct = len(options.train_columns), None
    if inputs.train and options.loss == "negatives":
        distinct = DistinctBatches(
            inputs.train,
            num_texts=num_texts,
            batch_size=train.train_batch_size,
            seed=train.seed,
        )
    batches = {"num_texts": num_texts, "distinct": distinct}
    model = Finetuning(
        opened.start,
        batch_sizes=["eval_batch_size"],
        make_batches=functools.partial(text_batches, **batches),
        begin=functools.partial(describe, opened),
    )
    parts = model.num_devices * train.gradient_accumulation_steps
    check_batch_size("train_batch_size", train.train_batch_size, parts)
    if train.xla and model.num_devices > 1:
        raise ValueError(
            "--xla compiles the gradient of one device, but "
            f"{model.num_devices} devices exchange their vectors within it; "
            "leave it out."
        )
    return model


def train_and_score(
    opened: Opened, inputs: Inputs, model: Finetuning
) -> tuple[Results, str]:
    """Trains; returns the scores of the kept weights, and their checkpoint."""
    scored: dict[int, Results] = {}

    def write(step: int, **more: Any) -> Results:
        path = os.path.join(opened.options.output_dir, "metrics.json")
        length = {"max_seq_length": opened.options.finetuning.max_seq_length}
        found = {"global_step": step, **scored[step], **more, **length}
        write_json(path, found)
        return scored[step]

    def evaluate(step: int) -> Results:
        vectors = model.outputs(inputs.dev, "eval_batch_size")["vectors"]
        values = retrieval.at_sizes(opened.dev, vectors, opened.sizes)
        events.write_eval_results(opened.options.output_dir, values, step)
        scored[step] = {"dev": values}
        return write(step)

    best = BestCheckpoint(model, evaluate, opened.choice)
    step = best.train(inputs.train, filter(None, [inputs.dev]))
    if not inputs.dev:
        return {}, best.weights(step)
    # An evaluation while training may be the last one, of other weights.
    if step not in scored:
        evaluate(step)
    return write(step, **best.note()), best.weights(step)


def describe(opened: Opened, weights: str = "") -> None:
    """Writes what the model is made with; "" = its training begins."""
    options = opened.options
    if description.keep(options, opened.described, weights):
        return
    opened.form.write(opened.options.output_dir)
    described = description.make(
        *(options, description.VectorDescription),
        task_name=options.texts.task_name,
        kind="vectors",
        model={},
        data={name: options.find(name) for name in _REMEMBERED},
    )
    description.write(options, described, weights)
