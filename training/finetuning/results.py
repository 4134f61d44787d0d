"""What a task's model answered, in the files and tables that are read."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from data import metrics
from data.finetuning.tagging import words_of_rows
from data.records.input_pipeline import RecordFiles
from data.storage import files
from data.storage.json_files import write_json
from data.tasks import Task
from training.finetuning.finetuner import Finetuning
from training.finetuning.predictions import Scores
from training.finetuning.tables import write_tsv
from training.model_files import setup


class Evaluation:
    """Scores a task's dev sets with the weights that the model holds now.

    Args:
      finetuning: the model.
      task: whose dev sets.
      dev_files: set -> records.
      output_dir: of the result files.

    Attributes:
      step: of the last evaluation that was written.
      results: what it gave, set -> metric -> value.
    """

    def __init__(
        self,
        finetuning: Finetuning,
        task: Task,
        dev_files: Mapping[str, RecordFiles],
        output_dir: str,
    ):
        self._finetuning = finetuning
        self._task = task
        self._dev_files = dev_files
        self._output_dir = output_dir
        self._gold: dict[str, Any] = {}
        self.step: int | None = None
        self.results: dict[str, dict[str, float]] = {}

    def metric_names(self) -> dict[str, list[str]]:
        """Set -> names of what an evaluation gives, known before any."""
        # A task may score more than its list of metrics says: the right
        # answers, taken for predictions, show what.
        summary = self._finetuning.model.metric
        return {
            set_name: [
                f"eval_{summary}",
                "eval_loss",
                "loss",
                *self._task.score(*[self._gold_of(set_name)] * 2),
            ]
            for set_name in self._dev_files
        }

    def write(self, step: int) -> dict[str, dict[str, float]]:
        """Evaluates: eval_results.txt, metrics.json, tables in the log.

        Args:
          step: of the weights.

        Returns:
          Set -> metric -> value.
        """
        self.results = {}
        for number, set_name in enumerate(self._dev_files):
            summary, scored, answers = self._score(set_name)
            name = f"eval_{set_name}" if number else "eval"
            setup.write_eval_results(self._output_dir, summary, step, name)
            _log_tables(self._task, self._gold_of(set_name), answers)
            logging.info(
                "%s: %s",
                set_name,
                ", ".join(
                    f"{key} = {value:.4f}" for key, value in scored.items()
                ),
            )
            self.results[set_name] = summary | scored
        self.step = step
        self.write_metrics({})
        return self.results

    def write_metrics(self, more: Mapping[str, Any]) -> None:
        """Writes metrics.json: the last evaluation, and what else is given."""
        found = {"global_step": self.step, **self.results, **more}
        write_json(os.path.join(self._output_dir, "metrics.json"), found)

    def score(self) -> dict[str, dict[str, float]]:
        """Evaluates and writes nothing; returns what `write` does."""
        scored = {name: self._score(name) for name in self._dev_files}
        return {name: parts[0] | parts[1] for name, parts in scored.items()}

    def _score(self, set_name: str) -> tuple[dict, dict, Any]:
        """The original's figures of a set, the task's metrics, the answers."""
        summary, scores = self._finetuning.evaluate(self._dev_files[set_name])
        answers = answers_of(self._task, set_name, scores)
        gold = self._gold_of(set_name)
        return summary, self._task.score(gold, answers), answers

    def _gold_of(self, set_name: str) -> Any:
        if set_name not in self._gold:
            gold = self._task.gold(set_name)
            if gold is None:
                raise ValueError(
                    f"--task_name={self._task.name}: some examples of the "
                    f"{set_name} set have no label, so there is nothing to "
                    "score; leave out --do_eval, or label them."
                )
            self._gold[set_name] = gold
        return self._gold[set_name]


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


def write_predictions(
    task: Task, set_name: str, scores: Scores, output_dir: str, is_first: bool
) -> None:
    """Writes test_results.tsv, predictions.tsv and a server's file.

    Args:
      task: whose.
      set_name: the set that was predicted.
      scores: of all its examples.
      output_dir: where.
      is_first: False for a further test set, whose files have its name.
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
    """Writes `test_results.tsv`: a line an example, a column a label.

    Args:
      output_dir: where.
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
    """The label, or number, of each example."""
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
    """A word and its label a line, a blank line behind each sentence."""
    rows = []
    for example, labels in zip(task.examples(set_name), answers, strict=True):
        rows += zip(example.words, labels, strict=True)
        rows.append(())
    return rows
