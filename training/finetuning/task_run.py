"""What a run of one task takes and returns."""

from collections.abc import Mapping
from typing import NamedTuple

from data.records.input_pipeline import RecordFiles
from data.tasks import Task
from training.finetuning.metric_values import Results


class Inputs(NamedTuple):
    """A task and the records of its sets; dev and test by the set's name.

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
