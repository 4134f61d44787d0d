"""A run of run_sentence_vectors.py."""

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from data.records import input_pipeline
from data.records.distinct_batches import DistinctBatches
from data.records.input_pipeline import RecordFiles
from data.storage.json_files import write_json
from data.text.tokenization import FullTokenizer
from data.vectors import retrieval, set_records, teacher_vectors
from data.vectors.retrieval import PairSet
from data.vectors.text_sets import TextExample, TextSets
from modeling.checkpoints import tf1
from modeling.checkpoints.vector_form import VectorForm
from modeling.objectives.sentence_vectors import SentenceEncoder
from training.config.vector_options import SentenceOptions
from training.finetuning.best_checkpoint import (
    BestCheckpoint,
    Choice,
    open_choice,
)
from training.finetuning.metric_values import Results
from training.loop import events
from training.start.description import (
    Description,
    VectorDescription,
    keep,
    place_of_weights,
)
from training.start.source import Source
from training.start.start import Start, check_outputs, read_files
from training.vectors.vector_training import VectorTraining

_RESULTS = ("eval_results.txt", "metrics.json")
_RECORDS = ("train.tf_record", "eval.tf_record")
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
      train: the examples to train on; None = do not train.
      teacher: vectors of these examples, [N, T]; None = the loss needs none.
      dev: the pairs to evaluate on; None = do not evaluate.
      start: configuration, folder and first weights.
      tokenizer: splits texts into wordpieces of the vocabulary.
      described: `task.json` of output_dir.
      choice: see `BestCheckpoint`.
    """

    options: SentenceOptions
    form: VectorForm
    train: TextSets | None
    teacher: np.ndarray | None
    dev: PairSet | None
    start: Start
    tokenizer: FullTokenizer
    described: Description | None
    choice: Choice

    @property
    def output_dir(self) -> str:
        """The folder of the run."""
        return self.options.finetuning.train.output_dir

    @property
    def max_seq_length(self) -> int:
        """The most wordpieces of a text."""
        return self.options.finetuning.max_seq_length


class Inputs(NamedTuple):
    """The records of a run; None = do not train, or do not evaluate.

    `distinct` are the batches of a loss with negatives.
    """

    train: RecordFiles | None
    distinct: DistinctBatches | None
    dev: RecordFiles | None


def run(options: SentenceOptions) -> Results:
    """Trains and evaluates after checking all inputs; returns the scores.

    Raises:
      ValueError, OSError: an input is missing or does not fit; all inputs are
        checked before the first training step.
      FloatingPointError: training diverged.
    """
    opened = open_run(options)
    inputs = make_records(opened)
    model = make_model(opened, inputs)
    results, weights = train_and_score(opened, inputs, model)
    describe(opened, weights)
    if options.do_train:
        model.finish()
    return results


def open_run(options: SentenceOptions) -> Opened:
    """Refuses missing files and weights that do not fit; writes no records.

    Raises:
      ValueError, OSError: an input is missing or does not fit.
    """
    options, config, tokenizer, source, described = read_files(options)
    options.check_together()
    output_dir, texts = options.finetuning.train.output_dir, options.texts
    form = _form_of(options, source)
    sizes = form.sizes(config.hidden_size)
    if form.pooling == "cls" and config.left_to_right:
        raise ValueError(
            "--pooling=cls: the model reads left to right, so that [CLS] sees "
            "only itself; give --pooling=mean."
        )
    inputs = {n: getattr(texts, n) for n in ("train_file", "dev_file")}
    inputs["teacher_vectors"] = texts.teacher_vectors
    check_outputs(output_dir, inputs, (*_RESULTS, *_RECORDS))
    start = Start.open(
        # The encoder computes in parts, because every example is compared
        # with all others of its batch.
        options.finetuning.replace(gradient_accumulation_steps=1),
        config,
        source,
        functools.partial(
            SentenceEncoder,
            form=form,
            loss=options.loss,
            num_texts=options.num_texts,
            scale=options.similarity_scale,
            num_parts=options.finetuning.train.gradient_accumulation_steps,
        ),
        trains=options.do_train,
        heads=(),
    )
    train, teacher = _train_set(options) if options.do_train else (None, None)
    dev, names = None, {}
    if options.evaluates:
        dev = retrieval.pair_set(options.dev_set.examples("dev"))
        names = {"dev": retrieval.names_at(dev, sizes)}
    choice = open_choice(options.finetuning, names)
    return Opened(
        *(options, form, train, teacher, dev, start, tokenizer),
        described=described,
        choice=choice,
    )


def _form_of(options: SentenceOptions, source: Source) -> VectorForm:
    """The form that the flags and the model's folder say.

    Raises ValueError if output_dir holds a model with another one.
    """
    folder = options.finetuning.train.output_dir
    before = VectorForm.find(folder)
    trained = before if tf1.latest_name(folder) else None
    beside = source.folder and VectorForm.find(source.folder.path)
    base = trained or beside or before or VectorForm()
    given = {
        name: getattr(options, name)
        for name in ("pooling", "normalize", "vector_sizes")
        if getattr(options, name) is not None
    }
    form = dataclasses.replace(base, **given)
    for name in given if trained else ():
        old, new = getattr(trained, name), getattr(form, name)
        # A model can be evaluated at any sizes.
        if old != new and (name != "vector_sizes" or options.do_train):
            raise ValueError(
                f"{folder} holds a model with --{name}={old}, but the command "
                f"has {new}; leave --{name} out, or give another --output_dir."
            )
    return form


def _train_set(
    options: SentenceOptions,
) -> tuple[TextSets, np.ndarray | None]:
    """Checks the first example; opens the teacher's vectors."""
    train = options.train_set
    next(train.examples("train"))
    if options.loss != "teacher":
        return train, None
    count = sum(1 for _ in train.examples("train"))
    path = options.texts.teacher_vectors
    return train, teacher_vectors.read_teacher(path, count)


def make_records(opened: Opened) -> Inputs:
    """Writes the records of a run to its output_dir, or finds them there.

    Raises:
      ValueError, OSError: an example is wrong, output_dir was trained on other
        data, a batch has too few texts, or a file cannot be written.
    """
    options, train, distinct, dev = opened.options, None, None, None
    if opened.dev:
        texts = [TextExample((text,)) for text in opened.dev.texts]
        dev = _records(opened, _RECORDS[1], lambda: texts)
    if opened.train:
        train = _records(
            opened,
            _RECORDS[0],
            lambda: opened.train.examples("train"),
            num_texts=options.num_texts,
            scored=opened.train.scored,
            vectors=_targets(opened),
            check=opened.start.check_input,
        )
    if train and options.loss == "negatives":
        distinct = DistinctBatches(
            train,
            num_texts=options.num_texts,
            batch_size=options.finetuning.train.train_batch_size,
            seed=options.finetuning.train.seed,
        )
    return Inputs(train, distinct, dev)


def _targets(opened: Opened) -> np.ndarray:
    """What the vectors shall be, [N, H]; [0, 0] = no loss needs it."""
    if opened.teacher is None:
        return np.zeros([0, 0], np.float32)
    size = opened.start.config.hidden_size
    if opened.teacher.shape[1] != size:
        logging.info(
            "The teacher's vectors have %d numbers, the model's %d: they are "
            "rotated to their principal axes.",
            opened.teacher.shape[1],
            size,
        )
    rotate = len(opened.form.sizes(size)) > 1
    return teacher_vectors.fitted(opened.teacher, size, rotate)


def _records(
    opened: Opened,
    name: str,
    read: Any,
    num_texts: int = 1,
    scored: bool = False,
    vectors: np.ndarray | tuple = (),
    check: Any = None,
) -> RecordFiles:
    """Writes train.tf_record or eval.tf_record, unless it exists."""
    path = os.path.join(opened.output_dir, name)
    specs = set_records.text_specs(
        opened.max_seq_length,
        num_texts,
        scored=scored,
        vector_size=np.shape(vectors)[-1] if len(vectors) else 0,
    )
    set_records.make_records(
        read,
        path,
        opened.tokenizer,
        specs,
        max_seq_length=opened.max_seq_length,
        vectors=vectors,
        check=check,
    )
    limits = {"input_ids": opened.start.config.vocab_size}
    return input_pipeline.open_records([path], specs, limits=limits)


def make_model(opened: Opened, inputs: Inputs) -> VectorTraining:
    """The model in its output_dir, described there if it is to be trained."""
    options = opened.options
    model = VectorTraining(
        opened.start,
        num_texts=options.num_texts,
        num_parts=options.finetuning.train.gradient_accumulation_steps,
        distinct=inputs.distinct,
    )
    if options.do_train:
        describe(opened)
    return model


def train_and_score(
    opened: Opened, inputs: Inputs, model: VectorTraining
) -> tuple[Results, str]:
    """Trains; returns the scores of the kept weights, and their checkpoint."""
    scored: dict[int, Results] = {}
    sizes = opened.form.sizes(opened.start.config.hidden_size)

    def evaluate(step: int) -> Results:
        vectors = model.vectors(inputs.dev)
        results = {"dev": retrieval.at_sizes(opened.dev, vectors, sizes)}
        scored[step] = results
        events.write_eval_results(opened.output_dir, results["dev"], step)
        _write_metrics(opened.output_dir, step, results)
        return results

    best = BestCheckpoint(model, evaluate, opened.choice)
    step = best.train(inputs.train) if inputs.train else best.restore()
    results = {}
    if inputs.dev:
        # An evaluation while training may be the last one, of other weights.
        results = scored.get(step) or evaluate(step)
        _write_metrics(opened.output_dir, step, results, best.note())
    return results, best.weights(step)


def _write_metrics(
    output_dir: str,
    step: int,
    results: Results,
    more: Mapping[str, Any] | None = None,
) -> None:
    write_json(
        os.path.join(output_dir, "metrics.json"),
        {"global_step": step, **results, **(more or {})},
    )


def describe(opened: Opened, weights: str = "") -> None:
    """Writes what the model is made with; "" = its training begins.

    A command that does not train keeps what is written of its weights.
    """
    options, output_dir = opened.options, opened.output_dir
    place = weights and place_of_weights(weights, output_dir)
    if not options.do_train and keep(output_dir, opened.described, place):
        return
    was_begun = options.do_train and bool(weights)
    opened.form.write(output_dir)
    VectorDescription(
        task_name=options.texts.task_name,
        kind="vectors",
        model={},
        weights=place,
        max_seq_length=opened.max_seq_length,
        do_lower_case=options.do_lower_case,
        never_split=options.never_split,
        save_best=options.finetuning.save_best,
        data={name: options.find(name) for name in _REMEMBERED},
    ).write(output_dir, None if was_begun else options.vocab_file)
