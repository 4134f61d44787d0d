"""A run of run_classifier.py on one task."""

import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from absl import logging

from data import calibration, metrics
from data.finetuning.feature_options import FeatureOptions
from data.finetuning.records import make_records as make_record_file
from data.records.input_pipeline import RecordFiles, open_records
from data.storage import files
from data.tasks import KINDS, Task, class_weights, get_task, task_options
from data.text.tokenization import FullTokenizer
from modeling.checkpoints.model_folder import DESCRIPTION, LABELS
from modeling.config import BertConfig
from modeling.embeddings import require_pairs
from modeling.objectives.tasks import TaskModel
from training.config.finetuning_options import ClassifierOptions, TaskOptions
from training.finetuning import calibrating, earlier_model, explaining
from training.finetuning.best_checkpoint import BestCheckpoint, Choice
from training.finetuning.distilling import Teacher, open_teacher
from training.finetuning.finetuner import Finetuning
from training.finetuning.metric_values import Results
from training.finetuning.prediction_files import (
    write_dev_predictions,
    write_predictions,
)
from training.finetuning.predictions import summary_names
from training.finetuning.task_scorer import TaskScorer
from training.start import description
from training.start.start import Start, check_outputs, read_files

_RESULTS = (
    *("eval_results.txt", "metrics.json", "checkpoints.tsv", "errors.html"),
    *("predictions.tsv", "dev_predictions.tsv", "test_results.tsv"),
)
# A BiLSTM does not learn with the smaller rates of fine-tuning.
_LEAST_RATE = 1e-4


class Inputs(NamedTuple):
    """The task and the records of a run; dev and test by the set's name.

    `train` None = do not train.
    """

    task: Task
    train: RecordFiles | None
    dev: Mapping[str, RecordFiles]
    test: Mapping[str, RecordFiles]


class Outcome(NamedTuple):
    """The result of a run.

    `step` is the step of the weights that were evaluated and used for
    predictions, `weights` the prefix of their checkpoint. `results` is dev set
    -> metric -> value, {} without an evaluation.
    """

    step: int
    results: Results
    weights: str


class Opened(NamedTuple):
    """A run whose files are read and checked; nothing is written yet.

    Attributes:
      options: the run's options, completed by `found_files`.
      task: its task.
      teacher: what the run learns from beside the labels.
      sets: `train`, `eval` and `predict`, if asked for -> sets that exist.
      start: configuration, folder and first weights.
      tokenizer: splits texts into wordpieces of the vocabulary.
      described: `task.json` of output_dir.
      choice: see `BestCheckpoint`.
    """

    options: ClassifierOptions
    task: Task
    teacher: Teacher
    sets: Mapping[str, Sequence[str]]
    start: Start
    tokenizer: FullTokenizer
    described: description.Description | None
    choice: Choice


def run(options: ClassifierOptions, inputs: Inputs | None = None) -> Outcome:
    """Trains, evaluates and predicts, after checking that all inputs fit.

    `inputs` are what `make_records` returned, perhaps for another run; None =
    it is called.

    Raises:
      ValueError, OSError: an input is missing or does not fit; all of them are
        checked before the first training step.
      FloatingPointError: training diverged.
    """
    opened = open_run(options, inputs)
    inputs = inputs or make_records(opened)
    model = make_model(opened, inputs)
    scorer, outcome = train_and_score(opened, inputs, model)
    answer(opened, inputs, model, scorer, outcome.weights)
    describe(opened, outcome.weights)
    if options.do_train:
        old = () if options.do_predict else opened.task.answer_files
        model.finish(keeps_all=options.eval_checkpoints != "last", old=old)
    return outcome


def open_run(
    options: ClassifierOptions, inputs: Inputs | None = None
) -> Opened:
    """Refuses missing files and weights that do not fit; writes no records.

    Args:
      options: the run's options, with the sets that are needed.
      inputs: see `run`; None = the data of the task are checked, too.

    Raises:
      ValueError, OSError: an input is missing or does not fit.
    """
    options, config, tokenizer, source, described = read_files(options, KINDS)
    check_tables(options, options.output_dir)
    task = inputs.task if inputs else _task_of(options, described)
    description.require_kind(options.output_dir, described, [task.kind])
    sets = {} if inputs else _existing_sets(options, task, config, described)
    metrics.check(task.metrics, task.kind, task.labels)
    calibration.check(options.calibrate, task.kind)
    calibrating.check(options, described)
    explaining.check(task.kind, options.feature_based, options.explain_errors)
    teacher = open_teacher(options, tokenizer, task)
    model = _model_of(options, task)
    given = options.class_weights if options.do_train else ()
    weights = class_weights.of_labels(given, task)
    start = Start(
        options.finetuning,
        config,
        source,
        functools.partial(TaskModel, **model, class_weights=weights),
        trains=options.do_train,
        head={name: model[name] for name in ("feature_based", "head")},
        labels=task.labels,
        rows=() if task.kind == "choice" else task.labels,
    )
    names = [*summary_names(start.metric), *task.metrics]
    dev_sets = inputs.dev if inputs else sets.get("eval", ())
    choice = Choice.open(options.finetuning, dict.fromkeys(dev_sets, names))
    opened = options, task, teacher, sets, start, tokenizer
    return Opened(*opened, described, choice)


def check_tables(options: ClassifierOptions, output_dir: str) -> None:
    """Refuses tables that a run's results in output_dir would replace."""
    folder, given = options.data_dir or "", options.task_options
    tables = {
        flag: os.path.join(folder, given[flag])
        for flag in ("train_file", "dev_file", "test_file")
        if given.get(flag)
    }
    tables["unlabeled_file"] = options.distillation.unlabeled_file
    check_outputs(output_dir, tables, _RESULTS)


def _task_of(options: ClassifierOptions, described: Any) -> Task:
    """The task; without training, its train set is not opened."""
    task = get_task(options.task_name, options.data_dir, **options.task_options)
    said = os.path.join(options.output_dir, DESCRIPTION)
    is_other = not described and files.exists(said)  # of another model
    if not options.do_train and not is_other:
        path = os.path.join(options.output_dir, LABELS)
        labels = files.read_lines(path) if files.exists(path) else None
        task.model_labels = tuple(labels or getattr(described, "labels", ()))
        task.train_separator = getattr(described, "separator", "")
    return task


def _existing_sets(
    options: ClassifierOptions,
    task: Task,
    config: BertConfig,
    described: description.Description | None,
) -> dict[str, list[str]]:
    """Returns `Opened.sets`, each of which has an example that fits."""
    asked = {
        "train": (options.do_train, task.train_sets[:1]),
        "eval": (options.do_eval or options.watches, task.dev_sets),
        "predict": (options.do_predict, task.test_sets),
    }
    sets = {name: [] for name, (is_asked, _) in asked.items() if is_asked}
    for name, found in sets.items():
        for set_name in asked[name][1]:
            try:
                example = next(task.examples(set_name))
            except FileNotFoundError as error:
                # The original reads only the first set of MNLI; a folder may
                # lack the other.
                if not found:
                    raise
                logging.warning("%s is left out: %s", set_name, error)
                continue
            is_pair = getattr(example, "text_b", None) is not None
            if is_pair or task.kind == "choice":
                require_pairs(config, f"--task_name={task.name}, {set_name}")
            description.require_texts(described, is_pair, options.output_dir)
            found.append(set_name)
        if not found:
            has = (*task.train_sets, *task.dev_sets, *task.test_sets)
            raise ValueError(
                f"--task_name={task.name} has no set for --do_{name}, only "
                f"{', '.join(has)}."
            )
    return sets


def _model_of(options: ClassifierOptions, task: Task) -> dict[str, Any]:
    return {
        "kind": task.kind,
        "num_labels": max(1, len(task.labels)),
        "feature_based": options.feature_based,
        "head": options.head,
    }


def make_records(opened: Opened, folder: str = "") -> Inputs:
    """Writes the records of a run, or finds them.

    Args:
      opened: the run.
      folder: where to, if several runs share them; "" = its output_dir.

    Returns:
      The inputs of `run`.

    Raises:
      ValueError, OSError: an example is wrong, output_dir was trained on other
        data, or a file cannot be written.
    """
    options, task, teacher = opened.options, opened.task, opened.teacher
    made = {"train": {}, "eval": {}, "predict": {}}
    length = options.finetuning.max_seq_length
    stride = options.long_text.stride_of(length)
    features = FeatureOptions.of_task(
        task, length, document_context=options.document_context, stride=stride
    )
    folder = folder or options.output_dir
    limits = {
        "input_ids": opened.start.config.vocab_size,
        "segment_ids": opened.start.config.type_vocab_size,
    }
    if task.kind == "multilabel":
        limits["label_ids"] = 2  # absent or present
    elif task.kind != "regression":
        limits["label_ids"] = len(task.labels)

    def records(source: Task, set_name: str, stem: str, check: Any = None):
        path = os.path.join(folder, f"{stem}.tf_record")
        given = path, opened.tokenizer, features, check
        make_record_file(source, set_name, *given)
        return open_records([path], features.specs, limits=limits)

    for name, set_names in opened.sets.items():
        check = teacher.check(opened.start) if name == "train" else None
        for set_name in set_names:
            stem = f"{name}_{set_name}" if made[name] else name
            made[name][set_name] = records(task, set_name, stem, check)
    train = next(iter(made["train"].values()), None)
    if train and teacher.folder:
        parts = [train]
        if teacher.unlabeled:
            parts.append(records(teacher.unlabeled, "test", "unlabeled"))
        train = teacher.add_scores(opened.start, *parts)
    return Inputs(task, train, made["eval"], made["predict"])


def make_model(opened: Opened, inputs: Inputs) -> Finetuning:
    """The model in its output_dir, described there when training begins."""
    options, task = opened.options, opened.task
    _warn_of_rate(options)
    return Finetuning(
        opened.start,
        num_choices=len(task.labels) if task.kind == "choice" else 1,
        batch_sizes=["eval_batch_size"] * bool(inputs.dev)
        + ["predict_batch_size"] * bool(inputs.test),
        pooling=options.long_text.pooling,
        distillation=opened.teacher.distillation,
        begin=functools.partial(describe, opened),
    )


def _warn_of_rate(options: ClassifierOptions) -> None:
    rate = options.finetuning.train.learning_rate
    if options.do_train and options.feature_based and rate < _LEAST_RATE:
        logging.warning(
            "--learning_rate=%g suits fine-tuning; a head trained from "
            "scratch on a frozen encoder needs 1e-3 to 3e-3.",
            rate,
        )


def train_and_score(
    opened: Opened, inputs: Inputs, model: Finetuning
) -> tuple[TaskScorer, Outcome]:
    """Trains, and scores the dev sets with the weights that are kept."""
    options = opened.options
    scorer = TaskScorer(model, opened.task, inputs.dev)
    best = BestCheckpoint(model, scorer.write, opened.choice)
    before = {}
    if options.do_train:
        before = earlier_model.score(model.first, inputs.train, scorer)
    step = best.train(inputs.train, inputs.dev.values())
    if options.eval_checkpoints != "last":
        scorer.compare(options.eval_checkpoints)
        step = best.restore()
    # Requested by --do_eval, or evaluated during training.
    if inputs.dev:
        if scorer.step != step:
            scorer.write(step)
        scorer.write_metrics(**best.note())
    earlier_model.log(before, scorer.results, opened.task.metrics)
    return scorer, Outcome(step, scorer.results, best.weights(step))


def answer(
    opened: Opened,
    inputs: Inputs,
    model: Finetuning,
    scorer: TaskScorer,
    weights: str,
) -> None:
    """Calibrates, and writes the predictions of the dev and test sets."""
    options, explainer = opened.options, None
    found = calibrating.of_run(options, model.model, weights, scorer)
    told = scorer.calibrate(found)
    num_shaded = explaining.number_of(options, model.model)
    if inputs.dev and num_shaded:
        made_with = opened.tokenizer.vocab, _description(opened)
        explainer = explaining.Explainer(model.model, *made_with, num_shaded)
    for number, (set_name, scores) in enumerate(scorer.scores.items()):
        write_dev_predictions(
            *(opened.task, set_name, scores, options.output_dir),
            is_first=number == 0,
            step=scorer.step,
            answers_above=told.get(set_name, {}).get("answers_above", ()),
            explainer=explainer,
        )
    for number, (set_name, record_files) in enumerate(inputs.test.items()):
        scores = model.predict(record_files).calibrated(found, opened.task.kind)
        write_predictions(
            *(opened.task, set_name, scores, options.output_dir),
            is_first=number == 0,
            with_texts=options.write_texts,
        )


def describe(opened: Opened, weights: str = "") -> None:
    """Writes what the model is made with; "" = its training begins."""
    if not description.keep(opened.options, opened.described, weights):
        description.write(opened.options, _description(opened), weights)


def _description(opened: Opened) -> description.TaskDescription:
    """Describes the model, without the place of its weights."""
    options, task = opened.options, opened.task
    columns = dict(options.task_options)
    if options.do_train and "dev_share" in task_options(options.task_name):
        columns.setdefault("dev_share", None)
    for name in TaskOptions.OF_ONE_COMMAND:
        columns.pop(name, None)
    return description.make(
        *(options, description.TaskDescription),
        task_name=task.name,
        kind=task.kind,
        labels=task.labels,
        is_pair=task.reads_pairs(),
        cut=task.cut,
        label_separator=task.label_separator,
        document_context=options.document_context,
        stride=options.long_text.stride_of(options.finetuning.max_seq_length),
        pooling=options.long_text.pooling,
        model=_model_of(options, task),
        columns=columns,
        separator=task.train_separator,
        distillation=options.distillation.remembered,
    )
