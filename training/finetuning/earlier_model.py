"""A model that was fine-tuned before: its scores beside the new ones."""

import os
from collections.abc import Sequence

from absl import logging

from data.records import reuse
from data.records.input_pipeline import RecordFiles
from training.finetuning.metric_values import Results
from training.finetuning.task_scorer import TaskScorer
from training.start.first_weights import FirstWeights


def score(
    first: FirstWeights | None, train_files: RecordFiles, scorer: TaskScorer
) -> Results:
    """Scores the weights of --init_checkpoint if they have the task's labels.

    It also logs how many examples they were trained on. Returns {} for other
    weights.
    """
    if not first or not first.has_heads:
        return {}
    if before := reuse.num_examples(
        os.path.join(first.path, "train.tf_record")
    ):
        logging.info(
            "--init_checkpoint=%s was trained on %d examples; this run trains "
            "on %d.",
            *(first.path, before, reuse.num_examples(train_files.paths[0])),
        )
    return scorer.score()


def log(before: Results, after: Results, names: Sequence[str]) -> None:
    """Logs the metrics of each set that were scored before and after."""
    for set_name, results in before.items():
        logging.info(
            "%s, before and after this training: %s",
            set_name,
            ", ".join(
                f"{name} {results[name]:.4f} -> {after[set_name][name]:.4f}"
                for name in names
            ),
        )
