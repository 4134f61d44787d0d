"""The scores of a fine-tuned model for every example.

Axes: N examples, L labels, S wordpieces of the longest example.
"""

import dataclasses
from collections.abc import Mapping
from typing import Self

import numpy as np

from data.calibration import Calibration, decide
from data.finetuning.feature_options import EXAMPLE_NUMBER
from data.finetuning.long_text import first_windows, pool
from modeling import losses


@dataclasses.dataclass(frozen=True)
class ExampleScores:
    """The scores of every example, in the order of the files.

    Attributes:
      predictions: float32 [N, L], for tagging [N, S, L]: probabilities, or
        scores for regression; see `TaskModel`.
      labels: as in the records: [N, 1], [N, L] for multilabel, [N, S] for
        tagging. The labels of test records have no meaning.
      label_mask: int32 [N, S] for tagging (1 = has a label), else None.
      loss: float32 [N], without class weights.
      score: float32 [N], the model's metric.
      weight: float32 [N], labelled items: tokens for tagging, else 1. `loss`
        and `score` are sums over them.
      thresholds: see `Calibration`.
    """

    predictions: np.ndarray
    labels: np.ndarray
    label_mask: np.ndarray | None
    loss: np.ndarray
    score: np.ndarray
    weight: np.ndarray
    thresholds: tuple[float, ...] = ()

    @classmethod
    def of_outputs(
        cls, outputs: Mapping[str, np.ndarray], kind: str, pooling: str
    ) -> Self:
        """Takes the scores from what `OutputCollector.of_records` returns.

        `kind` is the task's. Rows that are windows of examples are pooled, see
        `long_text.pool` for `pooling`.
        """
        values = dict(outputs)
        numbers = values.pop(EXAMPLE_NUMBER, None)
        labels, mask = values.pop("label_ids"), values.pop("label_mask", None)
        scores = cls(labels=labels, label_mask=mask, **values)
        if numbers is None:
            return scores
        predictions = pool(scores.predictions, numbers[:, 0], pooling, kind)
        labels = scores.labels[first_windows(numbers[:, 0])]
        loss, score = _compare(predictions, labels, kind)
        weight = np.ones(len(labels), np.float32)
        return cls(predictions, labels, None, loss, score, weight)

    def calibrated(self, calibration: Calibration, kind: str) -> Self:
        """The scores with calibrated probabilities, and the loss of these."""
        if calibration == Calibration():
            return self
        predictions = calibration.probabilities(self.predictions, kind)
        return dataclasses.replace(
            self,
            predictions=predictions,
            loss=_compare(predictions, self.labels, kind)[0],
            thresholds=calibration.thresholds,
        )

    def summary(self, metric: str, batch_size: int) -> dict[str, float]:
        """Returns the original's figures, named as in `summary_names`.

        They are the means of `score`, which is the named metric, and `loss`
        over examples (labelled tokens), and the mean of the batch means of
        `loss`, in which the examples of a short last batch have more weight.

        Source: `run_classifier.model_fn_builder`, `Estimator.evaluate`.
        """
        starts = np.arange(0, len(self.loss), batch_size)
        sums = np.add.reduceat(self.loss.astype(np.float64), starts)
        weights = np.add.reduceat(self.weight.astype(np.float64), starts)
        counted = weights > 0
        means = sums[counted] / weights[counted]
        total = self.weight.sum(dtype=np.float64)
        score = self.score.sum(dtype=np.float64)
        pairs = (score, total), (sums.sum(), total), (means.sum(), len(means))
        figures = map(losses.mean, pairs)
        return dict(zip(summary_names(metric), figures, strict=True))


def _compare(
    predictions: np.ndarray, labels: np.ndarray, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """Returns loss and metric of pooled predictions, as `TaskModel` does."""
    if kind == "regression":
        error = predictions[:, 0] - labels[:, 0]
        return error**2, np.abs(error)
    if kind == "multilabel":
        right = np.where(labels == 1, predictions, 1 - predictions)
        hits = decide(kind, predictions) == labels
    else:
        right = np.take_along_axis(predictions, labels, axis=1)
        hits = predictions.argmax(axis=1)[:, None] == labels
    loss = -np.log(np.maximum(right, np.finfo(np.float32).tiny))
    return loss.mean(axis=1), hits.mean(axis=1, dtype=np.float32)


def summary_names(metric: str) -> tuple[str, ...]:
    """The names of the original's figures; see `ExampleScores.summary`."""
    return (f"eval_{metric}", "eval_loss", "loss")
