"""A model that was fine-tuned before: new rows, and scores before and after."""

import os
from collections.abc import Iterator, Sequence

import tensorflow as tf
from absl import logging

from data.finetuning.feature_options import EXAMPLE_NUMBER
from data.records import reuse, tfrecord
from data.records.input_pipeline import RecordFiles
from data.storage import files
from data.tasks import Task
from modeling.checkpoints import model_folder
from training.finetuning.metric_values import Results
from training.finetuning.task_scorer import TaskScorer

_MOST_SHOWN = 5  # new rows
# What may differ between records whose rows are compared.
_ANY_DATA = {"labels": None, "examples_sha256": None}


def score(train: RecordFiles | None, scorer: TaskScorer) -> Results:
    """Scores the model of --init_checkpoint if it has any of the labels.

    A label that it does not have is never predicted. Also logs which rows it
    was not trained on. Returns {} if nothing is trained (`train` is None), if
    it has none of the labels, or is of another kind of task.
    """
    first = scorer.finetuning.first
    if not (first and train):
        return {}
    trained = os.path.join(model_folder.beside(first.path), "train.tf_record")
    if before := reuse.num_examples(trained):
        path = train.paths[0]
        logging.info(
            "--init_checkpoint=%s was trained on %d examples, this run on %d.",
            *(first.path, before, reuse.num_examples(path)),
        )
        facts = [reuse.made_from(x) | _ANY_DATA for x in (trained, path)]
        # The same text has the same row.
        if facts[0] == facts[1] and files.exists(trained):
            _log_new(trained, train, scorer)
    answers = first.has_heads(scorer.task.kind)
    return scorer.score(first.new_labels) if answers else {}


def _log_new(trained: str, train: RecordFiles, scorer: TaskScorer) -> None:
    """Logs which rows of each set another folder does not have."""
    learned = {row: label for _, row, label in _rows(trained)}
    others = files.find_in(os.path.dirname(trained), "eval*.tf_record")
    known = learned.keys() | {x[1] for path in others for x in _rows(path)}
    sets = {scorer.task.train_sets[0]: train, **scorer.dev_files}
    has_same = reuse.made_from(trained).get("labels") == [*scorer.task.labels]
    for name, record_files in sets.items():
        rows = [*_rows(record_files.paths[0])]
        new = {i for i, row, _ in rows if row not in known}
        old = {i for i, row, _ in rows if row in learned} - new
        other = {i for i, row, x in rows if learned.get(row, x) != x} - new
        logging.info(
            "%s set: of %d examples that run trained on %d%s; %d are new%s",
            *(name, len({i for i, *_ in rows}), len(old)),
            f" ({len(other)} with another label)" * (has_same and bool(other)),
            len(new),
            _places(scorer.task, name, sorted(new)),
        )


def _rows(path: str) -> Iterator[tuple[int, int, bytes]]:
    """Yields each row's example number, a hash of its wordpieces, its label."""
    for number, record in enumerate(tfrecord.read_records(path)):
        row = tf.train.Example.FromString(record).features.feature
        if EXAMPLE_NUMBER in row:
            (number,) = row[EXAMPLE_NUMBER].int64_list.value
        label = row["label_ids"].SerializeToString()
        yield number, hash(row["input_ids"].SerializeToString()), label


def _places(task: Task, set_name: str, numbers: Sequence[int]) -> str:
    """Where the first of some examples stand: file and line, or the id."""
    if not numbers or task.kind == "tagging":  # a sentence may be two rows
        return "."
    try:
        named = [f"{x.path}, line {x.line}" for x in task.rows_of(set_name)]
    except NotImplementedError:
        named = [example.guid for example in task.examples(set_name)]
    shown = [named[i] for i in numbers[:_MOST_SHOWN]]
    return f": {'; '.join(shown)}{'; ...' * (len(shown) < len(numbers))}"


def log(before: Results, scorer: TaskScorer) -> None:
    """Logs the metrics of each set that were scored before and after."""
    for set_name, old in before.items():
        new, names = scorer.results[set_name], scorer.task.metrics
        told = ", ".join(f"{n} {old[n]:.4f} -> {new[n]:.4f}" for n in names)
        logging.info("%s, before and after this training: %s", set_name, told)
