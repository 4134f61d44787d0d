"""Scores of a task's dev sets, by hand."""

from types import SimpleNamespace

import numpy as np

from training.finetuning.predictions import ExampleScores
from training.finetuning.task_scorer import TaskScorer


def test_a_label_that_the_model_lacks_is_never_its_answer():
    gold, ones = np.array([1, 0]), np.ones(2, np.float32)

    def evaluate(record_files):
        predictions = np.float32([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]])
        return {}, ExampleScores(
            predictions, gold[:, None], None, ones, ones, ones
        )

    finetuning = SimpleNamespace(
        evaluate=evaluate,
        options=SimpleNamespace(train=SimpleNamespace(output_dir="")),
    )
    task = SimpleNamespace(
        kind="classification",
        labels=("a", "b", "c"),
        gold=lambda set_name: gold,
        score=lambda gold, ids: {"accuracy": np.mean(gold == ids)},
    )
    scorer = TaskScorer(finetuning, task, {"dev": None})
    assert scorer.score() == {"dev": {"accuracy": 0.5}}
    assert scorer.score([2]) == {"dev": {"accuracy": 1.0}}
