"""A task fine-tuned: its records, model, scores and result files."""

import dataclasses
import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from data import files, input_pipeline, metrics, tokenization, vocabulary
from data.features import FeatureOptions
from data.input_pipeline import RecordFiles
from data.tagging import words_of_rows
from data.task_records import make_records
from data.tasks import Task, get_task
from modeling import BertConfig, TaskModel
from training import runs
from training.finetuning import (
    Finetuning,
    FinetuningOptions,
    write_test_results,
)
from training.scoring import Scores

_SPECIAL_TOKENS = ("[UNK]", "[CLS]", "[SEP]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierOptions:
    """What run_classifier.py does.

    Attributes:
      task_name: one of `tasks.task_names`.
      data_dir: folder of its files.
      task_options: what only some tasks take; see `tasks.get_task`.
      vocab_file: the model's vocabulary.
      do_lower_case: True for an uncased vocabulary.
      document_context: see `FeatureOptions`.
      do_train: train on the train set.
      do_eval: score the dev sets.
      do_predict: answer the test sets.
      class_weights: see `TaskModel`.
      finetuning: how.
    """

    task_name: str
    data_dir: str | None
    task_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    vocab_file: str
    do_lower_case: bool = True
    document_context: bool = False
    do_train: bool = False
    do_eval: bool = False
    do_predict: bool = False
    class_weights: tuple[float, ...] = ()
    finetuning: FinetuningOptions

    def __post_init__(self):
        if not (self.do_train or self.do_eval or self.do_predict):
            raise ValueError(
                "At least one of `do_train`, `do_eval` or `do_predict' must be "
                "True."
            )


class _Sets:
    """The record files of a task's sets, made or found in output_dir."""

    def __init__(self, options: ClassifierOptions, task: Task):
        tokenization.validate_case_matches_checkpoint(
            options.do_lower_case, options.finetuning.init_checkpoint
        )
        self.task = task
        self._output_dir = options.finetuning.train.output_dir
        self._config = BertConfig.from_json_file(
            options.finetuning.bert_config_file
        )
        self._tokenizer = tokenization.FullTokenizer(
            options.vocab_file, options.do_lower_case
        )
        vocabulary.require_tokens(
            self._tokenizer.vocab, _SPECIAL_TOKENS, options.vocab_file
        )
        runs.check_vocabulary(
            self._tokenizer.vocab, options.vocab_file, self._config
        )
        self._features = FeatureOptions.of_task(
            task, options.finetuning.max_seq_length, options.document_context
        )

    def records(self, name: str, set_name: str) -> RecordFiles:
        """Makes `NAME.tf_record` of a set, unless it is there."""
        path = os.path.join(self._output_dir, f"{name}.tf_record")
        make_records(self.task, set_name, path, self._tokenizer, self._features)
        return input_pipeline.open_records(
            [path],
            self._features.specs,
            limits={
                "input_ids": self._config.vocab_size,
                "segment_ids": self._config.type_vocab_size,
            },
        )


def run(options: ClassifierOptions) -> None:
    """Trains, evaluates and predicts, after checking that all inputs fit.

    Args:
      options: what to do.

    Raises:
      ValueError, OSError: an input is missing or does not fit; all of them are
        checked before the first training step.
    """
    task = get_task(options.task_name, options.data_dir, **options.task_options)
    output_dir = options.finetuning.train.output_dir
    files.check_writable(output_dir)
    files.write_text(
        os.path.join(output_dir, "labels.txt"),
        "".join(f"{label}\n" for label in task.labels),
    )
    sets = _Sets(options, task)
    train_files = None
    if options.do_train:
        train_files = sets.records("train", task.train_sets[0])
    watched = options.finetuning.train.eval_every_steps and options.do_train
    dev_files = {}
    if options.do_eval or watched:
        dev_files = _records_of(sets, "eval", task.dev_sets)
    test_files = {}
    if options.do_predict:
        test_files = _records_of(sets, "predict", task.test_sets)
    num_labels = max(1, len(task.labels))
    finetuning = Finetuning(
        options.finetuning,
        functools.partial(
            TaskModel,
            kind=task.kind,
            num_labels=num_labels,
            class_weights=options.class_weights,
        ),
        num_choices=num_labels if task.kind == "choice" else 1,
    )

    def evaluate(step: int) -> None:
        _evaluate(finetuning, task, dev_files, output_dir, step)

    if train_files:
        step = finetuning.train(train_files, evaluate)
    else:
        step = finetuning.restore()
    if options.do_eval:
        evaluate(step)
    for number, (set_name, record_files) in enumerate(test_files.items()):
        scores = finetuning.predict(record_files)
        _write_predictions(task, set_name, scores, output_dir, number == 0)


def _records_of(
    sets: _Sets, name: str, set_names: Sequence[str]
) -> dict[str, RecordFiles]:
    """Set -> records: `NAME.tf_record` of the first, `NAME_SET` of others."""
    if not set_names:
        raise ValueError(
            f"--task_name={sets.task.name} has no set for --do_{name}; it has "
            f"{', '.join((*sets.task.train_sets, *sets.task.dev_sets))}"
            f"{', '.join(sets.task.test_sets)}."
        )
    found = {}
    for set_name in set_names:
        try:
            found[set_name] = sets.records(
                f"{name}_{set_name}" if found else name, set_name
            )
        except FileNotFoundError as error:
            # The original reads the first of MNLI's sets only, and is content
            # with a folder that has no other.
            if not found:
                raise
            logging.warning("%s is left out: %s", set_name, error)
    return found


def _evaluate(
    finetuning: Finetuning,
    task: Task,
    dev_files: Mapping[str, RecordFiles],
    output_dir: str,
    step: int,
) -> None:
    """Scores the dev sets: eval_results.txt, metrics.json, tables."""
    results = {}
    for number, (set_name, record_files) in enumerate(dev_files.items()):
        summary, scores = finetuning.evaluate(record_files)
        name = f"eval_{set_name}" if number else "eval"
        runs.write_eval_results(output_dir, summary, step, name)
        gold = task.gold(set_name)
        answers = answers_of(task, set_name, scores)
        scored = task.score(gold, answers)
        _log_tables(task, gold, answers)
        logging.info(
            "%s: %s",
            set_name,
            ", ".join(f"{key} = {value:.4f}" for key, value in scored.items()),
        )
        results[set_name] = summary | scored
    text = json.dumps({"global_step": step, **results}, indent=1)
    files.write_text(os.path.join(output_dir, "metrics.json"), text + "\n")


def answers_of(task: Task, set_name: str, scores: Scores) -> Any:
    """Turns predictions into answers.

    Args:
      task: whose.
      set_name: the set that was predicted.
      scores: of all its examples.

    Returns:
      As `Task.score` takes them: ids [N], numbers [N], 0 and 1 [N, L], or the
      label texts of each sentence.
    """
    predictions = scores.predictions
    if task.kind == "regression":
        return predictions[:, 0]
    if task.kind == "multilabel":
        return (predictions > 0.5).astype(np.int64)
    ids = predictions.argmax(axis=-1)
    if task.kind != "tagging":
        return ids
    lengths = [len(example.words) for example in task.examples(set_name)]
    return [
        [task.labels[i] for i in sentence]
        for sentence in words_of_rows(ids, scores.label_mask, lengths)
    ]


def _log_tables(task: Task, gold: Any, answers: Any) -> None:
    """Shows who is taken for whom, and each label's precision and recall."""
    if task.kind == "classification":
        logging.info(
            "\n%s\n\n%s",
            metrics.confusion_table(gold, answers, task.labels),
            metrics.class_table(gold, answers, task.labels),
        )
    elif task.kind == "multilabel":
        logging.info("\n%s", metrics.class_table(gold, answers, task.labels))
    elif task.kind == "tagging" and "entity_f1" in task.metrics:
        logging.info("\n%s", metrics.entity_table(gold, answers))


def _write_predictions(
    task: Task, set_name: str, scores: Scores, output_dir: str, is_first: bool
) -> None:
    """Writes test_results.tsv, predictions.tsv and a server's file."""
    suffix = "" if is_first else f"_{set_name}"
    answers = answers_of(task, set_name, scores)
    path = os.path.join(output_dir, f"predictions{suffix}.tsv")
    if task.kind == "tagging":
        files.write_text(path, _tagged_text(task, set_name, answers))
        logging.info("Wrote %s", path)
        return
    if is_first:
        write_test_results(output_dir, scores.predictions)
    texts = _label_texts(task, answers)
    header = ["id", "prediction", *(task.labels or ["score"])]
    lines = ["\t".join(header)]
    for example, text, row in zip(
        task.examples(set_name), texts, scores.predictions, strict=True
    ):
        shown = text if isinstance(text, str) else f"{text:.6g}"
        values = [f"{value:.6g}" for value in row]
        lines.append("\t".join([example.guid, shown, *values]))
    files.write_text(path, "\n".join([*lines, ""]))
    submission = task.submission(set_name, texts)
    if submission:
        place = os.path.join(output_dir, submission.file_name)
        files.write_text(place, submission.text)
        logging.info("Wrote %s", place)
    logging.info("Wrote %s", path)


def _label_texts(task: Task, answers: Any) -> list[str | float]:
    """The label, or number, of each example."""
    if task.kind == "regression":
        return [float(answer) for answer in answers]
    if task.kind == "multilabel":
        return [
            " ".join(
                label
                for label, is_on in zip(task.labels, row, strict=True)
                if is_on
            )
            for row in answers
        ]
    return [task.labels[answer] for answer in answers]


def _tagged_text(
    task: Task, set_name: str, answers: Sequence[Sequence[str]]
) -> str:
    """A word and its label a line, a blank line behind each sentence."""
    lines = []
    for example, labels in zip(task.examples(set_name), answers, strict=True):
        lines += map("\t".join, zip(example.words, labels, strict=True))
        lines.append("")
    return "\n".join([*lines, ""])
