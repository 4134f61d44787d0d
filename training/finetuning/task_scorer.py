"""Scores the dev sets of a task by its metrics."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from data import calibration, metrics
from data.finetuning.tagging import words_of_rows
from data.records.input_pipeline import RecordFiles
from data.storage import files
from data.storage.json_files import write_json
from data.tables import aligned, tsv
from data.tasks import Task
from training.finetuning.metric_values import flat
from training.finetuning.predictions import ExampleScores
from training.loop import events
from training.loop.checkpointing import CheckpointManager


class TaskScorer:
    """Scores a task's dev sets with the current weights of a `Finetuning`.

    Raises ValueError if an example of a set has no label.

    Attributes:
      finetuning, task: the model and its task.
      dev_files: the records of the sets.
      step: step of the last evaluation that was written.
      results: that evaluation's set -> metric -> value.
      scores: that evaluation's set -> scores of every example.
      calibrated: set -> `calibration.figures`.
      output_dir: the folder of the run.
    """

    def __init__(
        self, finetuning: Any, task: Task, dev_files: Mapping[str, RecordFiles]
    ):
        self.finetuning, self.task = finetuning, task
        self.dev_files = dev_files
        self.output_dir = finetuning.options.train.output_dir
        self._gold = {name: _gold(task, name) for name in dev_files}
        self.step: int | None = None
        self.results: dict[str, dict[str, float]] = {}
        self.scores: dict[str, ExampleScores] = {}
        self.calibrated: dict[str, Any] = {}
        self._more: dict[str, Any] = {}

    def write(self, step: int) -> dict[str, dict[str, float]]:
        """Scores all sets; writes eval_results.txt, metrics.json and the log.

        Returns set -> metric -> value.
        """
        self.results, by_set = {}, {}
        for set_name in self.dev_files:
            summary, scored, answers, scores = self._score(set_name)
            gold = self._gold[set_name]
            name = f"eval{suffix_of(self.task, set_name)}"
            events.write_eval_results(self.output_dir, summary, step, name)
            if self.task.kind in calibration.KINDS:
                details = metrics.details(
                    gold, answers, scores.predictions, self.task.labels
                )
                by_set[set_name] = details
                logging.info("\n%s", metrics.as_text(details))
            elif "entity_f1" in self.task.metrics:
                logging.info("\n%s", metrics.entity_table(gold, answers))
            told = ", ".join(f"{n} = {x:.4f}" for n, x in scored.items())
            logging.info("%s: %s", set_name, told)
            self.results[set_name] = summary | scored
            self.scores[set_name] = scores
        self.step = step
        self._more = {"details": by_set} if by_set else {}
        self.write_metrics()
        return self.results

    def write_metrics(self, **more: Any) -> None:
        """Writes metrics.json: the last results and what is known of them."""
        self._more |= more
        found = {"global_step": self.step, **self.results, **self._more}
        found["max_seq_length"] = self.finetuning.options.max_seq_length
        write_json(os.path.join(self.output_dir, "metrics.json"), found)

    def fit(self) -> tuple[str, calibration.Calibration]:
        """Fits a calibration on the first set; returns the set's name, too."""
        name = next(iter(self.dev_files))
        raw = self.scores[name].predictions
        return name, calibration.fit(self.task.kind, self._gold[name], raw)

    def calibrate(self, found: calibration.Calibration) -> None:
        """Calibrates `scores`; adds to metrics.json and the log what changes.

        Metrics and losses stay those of the uncalibrated probabilities.
        """
        if found == calibration.Calibration() or not self.scores:
            return
        kind, labels, told = self.task.kind, self.task.labels, self.calibrated
        for name, scores in self.scores.items():
            given = self._gold[name], scores.predictions, found
            told[name] = calibration.figures(kind, labels, *given)
            self.scores[name] = scores.calibrated(found, kind)
            logging.info("%s:\n%s", name, calibration.as_text(told[name]))
        self.write_metrics(calibration=told)

    def score(self, unknown: Sequence[int] = ()) -> dict[str, dict[str, float]]:
        """Returns what `write` returns, without writing anything.

        `unknown` are ids of labels that are never an answer.
        """
        scored = {name: self._score(name, unknown) for name in self.dev_files}
        return {name: parts[0] | parts[1] for name, parts in scored.items()}

    def compare(self, which: str) -> None:
        """Scores checkpoints of a run, loads them, writes checkpoints.tsv.

        `which` is `all`, or steps separated by commas. Raises ValueError if a
        checkpoint is missing.
        """
        rows, manager = [], self.finetuning.manager
        for step in _steps(which, manager):
            self.finetuning.load(manager.prefix(step))
            scores = flat(self.score())
            if not rows:
                rows.append(["step", *scores])
            rows.append([step, *scores.values()])
        path = os.path.join(self.output_dir, "checkpoints.tsv")
        files.write_text(path, tsv(rows))
        logging.info("Checkpoints of %s:\n%s", self.output_dir, aligned(rows))

    def _score(
        self, set_name: str, unknown: Sequence[int] = ()
    ) -> tuple[dict, dict, Any, ExampleScores]:
        """The original's figures, the task's metrics, answers and scores."""
        summary, scores = self.finetuning.evaluate(self.dev_files[set_name])
        scores.predictions[..., [*unknown]] = 0
        answers = answers_of(self.task, set_name, scores)
        scored = self.task.score(self._gold[set_name], answers)
        return summary, scored, answers, scores


def _steps(which: str, manager: CheckpointManager) -> list[int]:
    """The steps that `which` names; refuses those without a checkpoint."""
    there = asked = manager.steps()
    if which != "all":
        asked = sorted({int(step) for step in which.split(",")})
    if not there or {*asked} - {*there}:
        raise ValueError(
            f"--eval_checkpoints={which}: the steps with a checkpoint are "
            f"{', '.join(map(str, there)) or 'none'}; a finished run keeps the "
            "last one, unless --keep_checkpoint_max says how many."
        )
    return asked


def _gold(task: Task, set_name: str) -> Any:
    """The labels of a set; refuses one with unlabelled examples."""
    if (gold := task.gold(set_name)) is None:
        raise ValueError(
            f"--task_name={task.name}: some examples of the {set_name} set "
            "have no label to score by; leave out --do_eval, or label them."
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


def suffix_of(task: Task, set_name: str) -> str:
    """What the files of a further set have in their names; "" = the first."""
    known = task.train_sets, task.dev_sets, task.test_sets
    is_first = any(set_name in names[:1] for names in known)
    return "" if is_first else f"_{set_name}"


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
