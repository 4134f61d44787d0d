"""A run of run_classifier.py on one task."""

import functools
import os
from collections.abc import Mapping
from typing import NamedTuple

from absl import logging

from data import calibration, metrics
from data.finetuning.feature_options import FeatureOptions
from data.finetuning.records import make_records as make_record_file
from data.records.input_pipeline import RecordFiles, open_records
from data.storage import files
from data.tasks import KINDS, Task, class_weights, get_task, task_options
from data.tasks.user import UserTable
from modeling.checkpoints.model_folder import DESCRIPTION, LABELS
from modeling.config import BertConfig
from modeling.embeddings import require_pairs
from modeling.objectives.tasks import TaskModel
from training.config.finetuning_options import ClassifierOptions, TaskOptions
from training.devices.strategy import check_batch_sizes
from training.finetuning import calibrating, earlier_model, explaining
from training.finetuning.best_checkpoint import BestCheckpoint
from training.finetuning.distilling import Teacher
from training.finetuning.finetuner import Finetuning
from training.finetuning.metric_values import Results
from training.finetuning.prediction_files import (
    write_dev_predictions,
    write_predictions,
)
from training.finetuning.predictions import summary_names
from training.finetuning.task_scorer import TaskScorer, suffix_of
from training.start import description, setup
from training.start.found_files import read_files
from training.start.start import Start, check_outputs

_OF_DEV = ("metrics.json", "dev_predictions.tsv", "errors.html")
_RESULTS = (
    *(*_OF_DEV, "eval_results.txt", "checkpoints.tsv"),
    *("predictions.tsv", "test_results.tsv"),
)
# Flags that change how texts are read, and so the scores: in metrics.json.
_MADE_WITH = ("do_lower_case", "never_split", "pooling", "document_context")
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


def run(options: ClassifierOptions, inputs: Inputs | None = None) -> Outcome:
    """Trains, evaluates and predicts, after checking that all inputs fit.

    `inputs` are what `Run.make_records` returned, perhaps for another run;
    None = it is called.

    Raises:
      ValueError, OSError: an input is missing or does not fit; all of them are
        checked before the first training step.
      FloatingPointError: training diverged.
    """
    opened = Run(options, inputs)
    return opened.finish(inputs or opened.make_records())


class Run:
    """A run whose files are read and checked; no records are written yet.

    Args:
      options: the run's options, with the sets that are needed.
      inputs: see `run`; None = the data of the task are checked, too.

    Attributes:
      options: the run's options, completed by `found_files`.
      task: its task.

    Raises:
      ValueError, OSError: an input is missing or does not fit.
    """

    def __init__(
        self, options: ClassifierOptions, inputs: Inputs | None = None
    ):
        options, config, tokenizer, source, known = read_files(options, KINDS)
        self.options, self._described = options, known
        self._tokenizer = tokenizer
        length = options.finetuning.max_seq_length
        self._stride = options.long_text.stride_of(length)
        check_tables(options, options.output_dir)
        self.task = task = inputs.task if inputs else self._open_task()
        description.require_kind(options.output_dir, known, [task.kind])
        self._is_pair = None  # whether the examples have two texts
        # `train`, `eval` and `predict` -> sets that exist, if asked for
        self._sets = {} if inputs else self._existing_sets(config)
        metrics.check(task.metrics, task.kind, task.labels)
        frozen = options.feature_based
        if options.calibrate:
            calibration.require_labels(task.kind, "--calibrate")
        calibrating.check(options, known)
        if options.explain_errors:
            explaining.check(task.kind, frozen)
        self._teacher = Teacher(options, tokenizer, task)
        head = {"feature_based": frozen, "head": options.head}
        count = max(1, len(task.labels))
        self._model = {"kind": task.kind, "num_labels": count, **head}
        given = options.class_weights if options.do_train else ()
        weights = class_weights.of_labels(given, task)
        self._start = Start(
            *(options.finetuning, config, source),
            functools.partial(TaskModel, **self._model, class_weights=weights),
            trains=options.do_train,
            head=head,
            labels=task.labels,
            rows=() if task.kind == "choice" else task.labels,
        )
        names = [*summary_names(self._start.metric), *task.metrics]
        dev_sets = inputs.dev if inputs else self._sets["eval"]
        names = dict.fromkeys(dev_sets, names)
        self._best = BestCheckpoint(options.finetuning, names)

    def _open_task(self) -> Task:
        """The task; without training, its train set is not opened."""
        options, described = self.options, self._described
        columns = options.task_options
        task = get_task(options.task_name, options.data_dir, **columns)
        said = os.path.join(options.output_dir, DESCRIPTION)
        is_other = not described and files.exists(said)  # of another model
        if not options.do_train and not is_other:
            path = os.path.join(options.output_dir, LABELS)
            kept = files.read_lines(path) if files.exists(path) else ()
            # `Start` compares both.
            task.model_labels = getattr(described, "labels", ()) or tuple(kept)
            task.train_separator = getattr(described, "separator", "")
        return task

    def _existing_sets(self, config: BertConfig) -> dict[str, list[str]]:
        """The sets that are asked for, each with an example; checks batches."""
        options, task, sets = self.options, self.task, {}
        works = {
            "train": (options.do_train, task.train_sets[:1]),
            "eval": (options.do_eval or options.watches, task.dev_sets),
            "predict": (options.do_predict, task.test_sets),
        }
        for name, (is_asked, known) in works.items():
            sets[name] = []
            for set_name in known if is_asked else ():
                try:
                    example = next(task.examples(set_name))
                except FileNotFoundError as error:
                    # The original reads only the first set of MNLI; a folder
                    # may lack the other.
                    if not sets[name]:
                        raise
                    logging.warning("%s is left out: %s", set_name, error)
                    continue
                is_pair = getattr(example, "text_b", None) is not None
                if is_pair or task.kind == "choice":
                    place = f"--task_name={task.name}, {set_name}"
                    require_pairs(config, place)
                folder = options.output_dir
                description.require_texts(self._described, is_pair, folder)
                sets[name].append(set_name)
                self._is_pair = is_pair
            if is_asked and not known:
                has = (*task.train_sets, *task.dev_sets, *task.test_sets)
                raise ValueError(
                    f"--task_name={task.name} has no set for --do_{name}, only "
                    f"{', '.join(has)}."
                )
        sizes = [f"{name}_batch_size" for name, found in sets.items() if found]
        check_batch_sizes(options.finetuning, sizes)
        return sets

    def make_records(self, folder: str = "") -> Inputs:
        """Writes the records of a run, or finds them; returns `run`'s inputs.

        `folder` is where to, if several runs share them; "" = its output_dir.
        Raises ValueError or OSError if an example is wrong, output_dir was
        trained on other data, or a file cannot be written.
        """
        options, task, teacher = self.options, self.task, self._teacher
        config, length = self._start.config, options.finetuning.max_seq_length
        features = FeatureOptions.of_task(
            *(task, length),
            document_context=options.document_context,
            stride=self._stride,
        )
        if options.document_context and isinstance(task, UserTable):
            logging.warning(
                "--document_context has no effect on tables: only files of "
                "conll and conllu say which sentences are of one document."
            )
        limits = setup.limits_of(config)
        if task.kind == "multilabel":
            limits["label_ids"] = 2  # absent or present
        elif task.kind != "regression":
            limits["label_ids"] = len(task.labels)

        def records(source: Task, set_name: str, stem: str) -> RecordFiles:
            place = folder or options.output_dir
            path = os.path.join(place, f"{stem}.tf_record")
            check = teacher.check(self._start) if stem == "train" else None
            given = path, self._tokenizer, features, check
            make_record_file(source, set_name, *given)
            return open_records([path], features.specs, limits=limits)

        made = {
            name: {x: records(task, x, name + suffix_of(task, x)) for x in sets}
            for name, sets in self._sets.items()
        }
        train = next(iter(made["train"].values()), None)
        if train and teacher.folder:
            parts = [train]
            if teacher.unlabeled:
                parts.append(records(teacher.unlabeled, "test", "unlabeled"))
            train = teacher.add_scores(*parts)
        return Inputs(task, train, made["eval"], made["predict"])

    def finish(self, inputs: Inputs) -> Outcome:
        """Trains, evaluates and predicts as asked."""
        options, task = self.options, self.task
        model = self._make_model()
        scorer = TaskScorer(model, task, inputs.dev)
        before = earlier_model.score(inputs.train, scorer)
        best, dev = self._best, inputs.dev.values()
        rules = {"pooling": options.long_text.pooling}
        step = best.train(model, scorer.write, inputs.train, dev, **rules)
        if options.eval_checkpoints != "last":
            scorer.compare(options.eval_checkpoints)
            step = best.restore()
        # Requested by --do_eval, or evaluated during training.
        if inputs.dev:
            if scorer.step != step:
                scorer.write(step)
            made_with = {name: options.find(name) for name in _MADE_WITH}
            made_with["stride"] = self._stride
            scorer.write_metrics(**best.note(), **made_with)
        earlier_model.log(before, scorer)
        weights = best.weights(step)
        self._answer(scorer, inputs, weights)
        self._describe(weights)
        if options.do_train:
            model.finish(
                keeps_all=options.eval_checkpoints != "last",
                do_predict=() if options.do_predict else task.answer_files,
                do_eval=() if inputs.dev else _OF_DEV,
            )
        return Outcome(step, scorer.results, weights)

    def _make_model(self) -> Finetuning:
        """The model in its output_dir, described there when training begins."""
        options, task = self.options, self.task
        _warn_of_rate(options)
        return Finetuning(
            self._start,
            num_choices=len(task.labels) if task.kind == "choice" else 1,
            pooling=options.long_text.pooling,
            distillation=self._teacher.distillation,
            begin=self._describe,
        )

    def _answer(self, scorer: TaskScorer, inputs: Inputs, weights: str) -> None:
        """Calibrates, and writes the predictions of the dev and test sets."""
        options, task, explainer = self.options, self.task, None
        finetuning, model = scorer.finetuning, scorer.finetuning.model
        found = calibrating.of_run(options, weights, scorer)
        scorer.calibrate(found)
        number = explaining.number_of(options, model)
        if inputs.dev and number:
            made_with = self._tokenizer.vocab, self._description()
            explainer = explaining.Explainer(model, *made_with, number)
        for set_name in scorer.scores:
            write_dev_predictions(scorer, set_name, explainer)
        for set_name, records in inputs.test.items():
            scores = finetuning.predict(records).calibrated(found, task.kind)
            place = options.output_dir, options.write_texts
            write_predictions(task, set_name, scores, *place)

    def _describe(self, weights: str = "") -> None:
        """Writes what the model is made with; "" = its training begins."""
        options, known, seen = self.options, self._described, {}
        if getattr(known, "is_pair", False) is None:  # a converted model
            seen["is_pair"] = self._is_pair
        if not description.keep(options, known, weights, **seen):
            description.write(options, self._description(), weights)

    def _description(self) -> description.TaskDescription:
        """Describes the model, without the place of its weights."""
        options, task = self.options, self.task
        given, others = options.task_options, TaskOptions.OF_ONE_COMMAND
        columns = {n: x for n, x in given.items() if n not in others}
        if options.do_train and "dev_share" in task_options(options.task_name):
            columns.setdefault("dev_share", None)
        return description.make(
            *(options, description.TaskDescription),
            task_name=task.name,
            kind=task.kind,
            labels=task.labels,
            is_pair=task.reads_pairs(),
            cut=task.cut,
            label_separator=task.label_separator,
            document_context=options.document_context,
            stride=self._stride,
            pooling=options.long_text.pooling,
            model=self._model,
            columns=columns,
            separator=task.train_separator,
            distillation=options.distillation.remembered,
        )


def _warn_of_rate(options: ClassifierOptions) -> None:
    rate = options.finetuning.train.learning_rate
    if options.do_train and options.feature_based and rate < _LEAST_RATE:
        logging.warning(
            "--learning_rate=%g suits fine-tuning; a head trained from "
            "scratch on a frozen encoder needs 1e-3 to 3e-3.",
            rate,
        )


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
