"""The predictions of a task as files."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from data.storage import files
from data.storage.tsv_files import write_tsv
from data.tasks import Task
from training.finetuning.predictions import ExampleScores
from training.finetuning.task_scorer import answers_of


def write_predictions(
    task: Task,
    set_name: str,
    scores: ExampleScores,
    output_dir: str,
    is_first: bool,
) -> None:
    """Writes test_results.tsv, predictions.tsv and the file for GLUE's server.

    Args:
      task: the task.
      set_name: the set that was predicted.
      scores: of all its examples.
      output_dir: folder of the files.
      is_first: False for a further test set; its files have its name.
    """
    suffix = "" if is_first else f"_{set_name}"
    answers = answers_of(task, set_name, scores)
    path = os.path.join(output_dir, f"predictions{suffix}.tsv")
    if task.kind == "tagging":
        write_tsv(path, _tagged_rows(task, set_name, answers))
        logging.info("Wrote %s", path)
        return
    if is_first:
        write_test_results(output_dir, scores.predictions)
    texts = _label_texts(task, answers)
    header = ["id", "prediction", *(task.labels or ["score"])]
    rows = [
        [example.guid, text, *map(float, row)]
        for example, text, row in zip(
            task.examples(set_name), texts, scores.predictions, strict=True
        )
    ]
    write_tsv(path, [header, *rows])
    submission = task.submission(set_name, texts)
    if submission:
        place = os.path.join(output_dir, submission.file_name)
        files.write_text(place, submission.text)
        logging.info("Wrote %s", place)
    logging.info("Wrote %s", path)


def write_test_results(output_dir: str, predictions: np.ndarray) -> str:
    """Writes `test_results.tsv`: a line for each example, a column per label.

    Args:
      output_dir: folder of the file.
      predictions: float32 [N, L].

    Returns:
      The file's path.

    Source: `run_classifier.main`.
    """
    path = os.path.join(output_dir, "test_results.tsv")
    lines = ["\t".join(map(str, row)) + "\n" for row in predictions]
    files.write_text(path, "".join(lines))
    return path


def _label_texts(task: Task, answers: Any) -> list[str | float]:
    """The label or the number of each example."""
    if task.kind == "regression":
        return [float(answer) for answer in answers]
    if task.kind == "multilabel":
        return [
            task.label_separator.join(
                label
                for label, is_on in zip(task.labels, row, strict=True)
                if is_on
            )
            for row in answers
        ]
    return [task.labels[answer] for answer in answers]


def _tagged_rows(
    task: Task, set_name: str, answers: Sequence[Sequence[str]]
) -> list[tuple[str, ...]]:
    """A row for each word and its label, an empty one after each sentence."""
    rows = []
    for example, labels in zip(task.examples(set_name), answers, strict=True):
        rows += zip(example.words, labels, strict=True)
        rows.append(())
    return rows
