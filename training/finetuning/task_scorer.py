"""Scores the dev sets of a task by its metrics."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from absl import logging

from data import calibration, metrics
from data.finetuning.tagging import words_of_rows
from data.records.input_pipeline import RecordFiles
from data.storage.json_files import write_json
from data.tasks import Task
from training.finetuning.predictions import ExampleScores
from training.loop import events


class TaskScorer:
    """Scores a task's dev sets with the current weights of a model.

    `evaluate` runs the model over records; it returns the original's figures
    and the scores of every example. Raises
    ValueError if an example of a set has no label.

    Attributes:
      step: step of the last evaluation that was written.
      results: that evaluation's set -> metric -> value.
      scores: that evaluation's set -> scores of every example.
    """

    def __init__(
        self,
        evaluate: Callable[[RecordFiles], tuple[dict, ExampleScores]],
        task: Task,
        dev_files: Mapping[str, RecordFiles],
        output_dir: str,
    ):
        self._evaluate = evaluate
        self._task = task
        self._dev_files = dev_files
        self._output_dir = output_dir
        self._gold = {name: _gold(task, name) for name in dev_files}
        self.step: int | None = None
        self.results: dict[str, dict[str, float]] = {}
        self.scores: dict[str, ExampleScores] = {}
        self._details: dict[str, dict[str, Any]] = {}
        self._more: dict[str, Any] = {}

    def write(self, step: int) -> dict[str, dict[str, float]]:
        """Scores all sets; writes eval_results.txt, metrics.json and the log.

        Returns set -> metric -> value.
        """
        self.results = {}
        for number, set_name in enumerate(self._dev_files):
            summary, scored, answers, scores = self._score(set_name)
            gold = self._gold[set_name]
            name = f"eval_{set_name}" if number else "eval"
            events.write_eval_results(self._output_dir, summary, step, name)
            _log_tables(self._task, gold, answers)
            logging.info(
                "%s: %s",
                set_name,
                ", ".join(
                    f"{key} = {value:.4f}" for key, value in scored.items()
                ),
            )
            self.results[set_name] = summary | scored
            self.scores[set_name] = scores
            if self._task.kind in calibration.KINDS:
                self._details[set_name] = metrics.details(
                    gold, answers, scores.predictions, self._task.labels
                )
        self.step = step
        self.write_metrics({})
        return self.results

    def write_metrics(self, more: Mapping[str, Any]) -> None:
        """Writes metrics.json: the last results and the given values."""
        self._more = dict(more)
        found = {"global_step": self.step, **self.results, **more}
        if self._details:
            found["details"] = self._details
        write_json(os.path.join(self._output_dir, "metrics.json"), found)

    def fit(self) -> tuple[str, calibration.Calibration]:
        """Fits a calibration on the first set; returns the set's name, too."""
        name = next(iter(self._dev_files))
        raw = self.scores[name].predictions
        return name, calibration.fit(self._task.kind, self._gold[name], raw)

    def calibrate(self, found: calibration.Calibration) -> dict[str, Any]:
        """Calibrates `scores`; adds to metrics.json and the log what changes.

        Metrics and losses stay those of the uncalibrated probabilities. Returns
        set -> `calibration.figures`.
        """
        kind, told = self._task.kind, {}
        if found == calibration.Calibration() or not self.scores:
            return told
        for name, scores in self.scores.items():
            given = self._gold[name], scores.predictions, found
            told[name] = calibration.figures(kind, self._task.labels, *given)
            self.scores[name] = scores.calibrated(found, kind)
            logging.info("%s:\n%s", name, calibration.as_text(told[name]))
        self.write_metrics(self._more | {"calibration": told})
        return told

    def score(self) -> dict[str, dict[str, float]]:
        """Returns what `write` returns, without writing anything."""
        scored = {name: self._score(name) for name in self._dev_files}
        return {name: parts[0] | parts[1] for name, parts in scored.items()}

    def _score(self, set_name: str) -> tuple[dict, dict, Any, ExampleScores]:
        """The original's figures, the task's metrics, answers and scores."""
        summary, scores = self._evaluate(self._dev_files[set_name])
        answers = answers_of(self._task, set_name, scores)
        return (
            summary,
            self._task.score(self._gold[set_name], answers),
            answers,
            scores,
        )


def _gold(task: Task, set_name: str) -> Any:
    """The labels of a set; refuses one with unlabelled examples."""
    gold = task.gold(set_name)
    if gold is None:
        raise ValueError(
            f"--task_name={task.name}: some examples of the {set_name} set "
            "have no label, so there is nothing to score; leave out --do_eval, "
            "or label them."
        )
    if task.kind in calibration.KINDS:
        is_there = metrics.columns(gold, len(task.labels)).any(axis=0)
        pairs = zip(task.labels, is_there, strict=True)
        if missing := [label for label, is_in in pairs if not is_in]:
            logging.warning(
                "The %s set has no row of the labels %s.",
                *(set_name, ", ".join(missing)),
            )
    return gold


def answers_of(task: Task, set_name: str, scores: ExampleScores) -> Any:
    """Turns predictions into arguments of `Task.score`.

    They are ids [N], numbers [N], 0 and 1 [N, L], or the label texts of each
    sentence.
    """
    predictions = scores.predictions
    if task.kind == "regression":
        return predictions[:, 0]
    ids = calibration.decide(task.kind, predictions, scores.thresholds)
    if task.kind != "tagging":
        return ids
    lengths = [len(example.words) for example in task.examples(set_name)]
    return [
        [task.labels[i] for i in sentence]
        for sentence in words_of_rows(ids, scores.label_mask, lengths)
    ]


def _log_tables(task: Task, gold: Any, answers: Any) -> None:
    """Logs the confusion matrix, and precision and recall of each label."""
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
