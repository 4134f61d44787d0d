"""A fine-tuned model's predictions for every example, in file order.

Axes: N examples, L labels, S wordpieces of the longest example.
"""

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from data.progress import Progress
from data.records.shard import Shard
from modeling import kernels, losses
from training.devices.strategy import distribute, inference_form, num_workers
from training.loop import custom_gradients
from training.loop.evaluator import PreemptionCheck
from training.loop.model import ExampleModel


@dataclasses.dataclass(frozen=True)
class Scores:
    """Of each real example of an input, in the order of its files.

    Attributes:
      predictions: float32 [N, L], for tagging [N, S, L]: probabilities, or
        scores for regression; see `TaskModel`.
      labels: as in the records: [N, 1], [N, L] for multilabel, [N, S] for
        tagging. What test records hold there means nothing.
      label_mask: int32 [N, S] for tagging (1 = has a label), else None.
      loss: float32 [N], without class weights.
      score: float32 [N], the model's metric.
      weight: float32 [N], labelled items: tokens for tagging, else 1. `loss`
        and `score` are sums over them.
    """

    predictions: np.ndarray
    labels: np.ndarray
    label_mask: np.ndarray | None
    loss: np.ndarray
    score: np.ndarray
    weight: np.ndarray

    def summary(self, metric: str, batch_size: int) -> dict[str, float]:
        """The original's figures.

        Args:
          metric: name of `score`.
          batch_size: of the evaluation.

        Returns:
          `eval_<metric>` and `eval_loss`, means over examples (labelled
          tokens); `loss`, the mean of the means of batches in file order, in
          which the examples of a short last batch count more.

        Source: `run_classifier.model_fn_builder`, `Estimator.evaluate`.
        """
        starts = np.arange(0, len(self.loss), batch_size)
        sums, weights = (
            np.add.reduceat(x.astype(np.float64), starts)
            for x in (self.loss, self.weight)
        )
        counted = weights > 0
        means = sums[counted] / weights[counted]
        total = self.weight.sum(dtype=np.float64)
        return {
            f"eval_{metric}": losses.mean(
                (self.score.sum(dtype=np.float64), total)
            ),
            "eval_loss": losses.mean((sums.sum(), total)),
            "loss": losses.mean((means.sum(), len(means))),
        }


class Scorer:
    """Predicts inputs; create it in the strategy's scope.

    Args:
      model: what predicts.
    """

    def __init__(self, model: ExampleModel):
        self._model = model
        self._strategy = tf.distribute.get_strategy()
        self._gathers = num_workers(self._strategy) > 1

    def score(
        self,
        make_batches: Callable[[Shard], tf.data.Dataset],
        *,
        num_examples: int,
        num_steps: int | None,
        what: str,
    ) -> Scores:
        """Predicts every example once, and compares it with its label.

        Args:
          make_batches: from a shard to its rows of every batch; see
            `length_batches.all_examples`.
          num_examples: of all batches.
          num_steps: how many batches there are; None = go on to their end,
            which several workers cannot: they would wait for each other.
          what: a word for the progress line.

        Returns:
          Scores of the real examples, back in file order.
        """
        arrays = self.outputs(
            make_batches,
            num_examples=num_examples,
            num_steps=num_steps,
            what=what,
        )
        return Scores(
            labels=arrays.pop("label_ids"),
            label_mask=arrays.pop("label_mask", None),
            **arrays,
        )

    def outputs(
        self,
        make_batches: Callable[[Shard], tf.data.Dataset],
        *,
        num_examples: int,
        num_steps: int | None,
        what: str,
    ) -> dict[str, np.ndarray]:
        """What the model's `score_examples` makes of every example.

        Args:
          make_batches: as for `score`.
          num_examples: likewise.
          num_steps: likewise.
          what: likewise.

        Returns:
          Name -> array [N, ...] of the real examples, back in file order, with
          `label_ids` and `label_mask` if the records have them. Rows of a
          shorter batch end in zeros.
        """
        columns = defaultdict(list)
        with Progress(what, total=num_examples, unit="examples") as progress:
            for results in self._results(make_batches, num_steps):
                for name, value in results.items():
                    parts = self._strategy.experimental_local_results(value)
                    # With several workers, every replica has all rows.
                    kept = parts[:1] if self._gathers else parts
                    columns[name] += [part.numpy() for part in kept]
                real = columns["is_real_example"][-len(kept) :]
                progress.advance(int(sum(part.sum() for part in real)))
        return _in_file_order(columns)

    def _results(self, make_batches, num_steps):
        """What `_step` makes of each batch."""
        iterator = iter(distribute(self._strategy, make_batches))
        check = PreemptionCheck(self._strategy)
        steps = itertools.count() if num_steps is None else range(num_steps)
        for _ in steps:
            check()
            try:
                results = self._step(iterator)
            except tf.errors.OutOfRangeError:
                if num_steps is None:
                    return
                raise
            yield results

    @tf.function(autograph=False)
    def _step(self, iterator):
        with custom_gradients.released():
            return self._strategy.run(
                self._replica_step, args=(next(iterator),)
            )

    def _replica_step(self, batch):
        kept = ("example_index", "is_real_example", "label_ids", "label_mask")
        dtype = self._model.layers[0].compute_dtype
        with kernels.form(inference_form(self._strategy, dtype)):
            results = self._model.score_examples(batch)
        results |= {name: batch[name] for name in kept if name in batch}
        if not self._gathers:
            return results
        replica = tf.distribute.get_replica_context()
        # `identity`: what is gathered must lie on the replica's device.
        return {
            name: replica.all_gather(tf.identity(value), axis=0)
            for name, value in results.items()
        }


def _in_file_order(columns) -> dict[str, np.ndarray]:
    """Puts the rows of all batches where they belong; drops the fillers."""
    real = np.concatenate([x[:, 0] for x in columns.pop("is_real_example")]) > 0
    places = np.concatenate([x[:, 0] for x in columns.pop("example_index")])
    # Places of real examples alone, closed up.
    order = np.argsort(places[real], kind="stable")
    return {
        name: _stacked(parts)[real][order] for name, parts in columns.items()
    }


def _stacked(parts):
    """Joins batches of different length, with zeros behind the short ones."""
    shape = np.max([part.shape for part in parts], axis=0)
    shape[0] = sum(len(part) for part in parts)
    stacked = np.zeros(shape, parts[0].dtype)
    start = 0
    for part in parts:
        rows = slice(start, start + len(part))
        stacked[(rows, *(slice(size) for size in part.shape[1:]))] = part
        start = rows.stop
    return stacked
