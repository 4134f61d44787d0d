"""Inference: batches through a model on all devices, in order, with progress.

Evaluations, predictions, vectors and answers to queries run in this loop.

Axes: N examples.
"""

import abc
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

import numpy as np
import tensorflow as tf

from data.finetuning.feature_options import EXAMPLE_NUMBER
from data.progress import Progress, tracked
from data.records import damage, length_batches
from data.records.input_pipeline import RecordFiles
from data.records.shard import WHOLE, Shard
from modeling import kernels, losses
from modeling.objectives.base import Batch, Objective
from training.devices import preemption
from training.devices import strategy as devices
from training.devices.workers import WAITS
from training.loop import custom_gradients

# Returns a shard's rows of every batch.
MakeBatches = Callable[[Shard], tf.data.Dataset]
# Features of a batch that are returned beside the outputs of a model.
_KEPT = (
    "example_index",
    "is_real_example",
    "label_ids",
    "label_mask",
    EXAMPLE_NUMBER,
)


def check_preempted(strategy: tf.distribute.Strategy) -> None:
    """Raises `Preempted` if any worker received SIGTERM.

    All workers must call it equally often; it gathers a number from each.
    """
    if devices.num_workers(strategy) == 1:
        preemption.check()
    elif devices.all_workers(strategy, [preemption.requested()]).any():
        raise preemption.Preempted


class Inference(abc.ABC):
    """Computes the outputs of batches; create it in the strategy's scope.

    `dtype` is the computations' dtype; for `work` see `inference_form`.
    """

    def __init__(self, dtype: str, work: float = 0.0):
        self._dtype = dtype
        self._work = work
        self._strategy = tf.distribute.get_strategy()
        self._gathers = devices.num_workers(self._strategy) > 1

    @abc.abstractmethod
    def compute(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Computes a device's part of a batch: name -> tensor [rows, ...]."""

    def over(
        self, make_batches: MakeBatches, what: str, num_steps: int | None = None
    ) -> Iterator[dict[str, list[np.ndarray]]]:
        """Yields the outputs of each batch: name -> an array of each device.

        `what` is a word for errors. `num_steps` None = up to the end of the
        input. With several workers it must be given, because a worker without
        batches would leave the others waiting.
        """
        iterator = iter(devices.distribute(self._strategy, make_batches))
        steps = itertools.count() if num_steps is None else range(num_steps)
        for _ in steps:
            try:
                yield self._arrays(self._step, iterator, what)
            except tf.errors.OutOfRangeError:
                if num_steps is None:
                    return
                raise

    def given(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Computes a batch whose rows can be divided among the devices."""
        count = self._strategy.num_replicas_in_sync
        split = {name: np.split(x, count) for name, x in batch.items()}

        def part(context):
            number = context.replica_id_in_sync_group
            return {n: tf.constant(x[number]) for n, x in split.items()}

        distribute = self._strategy.experimental_distribute_values_from_function
        outputs = self._arrays(self._given_step, distribute(part), "an answer")
        return {name: np.concatenate(x) for name, x in outputs.items()}

    def _arrays(self, step, batches, what):
        """The outputs of a step on all replicas; with several workers, on one.

        `what` it computes is a word for errors.
        """
        check_preempted(self._strategy)
        last = 1 if self._gathers else None  # every replica has all rows
        arrays = {}
        with WAITS.on(what):
            for name, x in step(batches).items():
                parts = self._strategy.experimental_local_results(x)[:last]
                arrays[name] = [part.numpy() for part in parts]
        return arrays

    @tf.function(autograph=False)
    def _step(self, iterator):
        return self._on_devices(next(iterator))

    # One graph for batches of all lengths and sizes.
    @tf.function(reduce_retracing=True, autograph=False)
    def _given_step(self, batch):
        return self._on_devices(batch)

    def _on_devices(self, batch):
        with custom_gradients.released():
            return self._strategy.run(self._replica_step, args=(batch,))

    def _replica_step(self, batch):
        form = devices.inference_form(self._strategy, self._dtype, self._work)
        with kernels.form(form):
            outputs = self.compute(batch)
        if not self._gathers:
            return outputs
        return {name: devices.gathered(x) for name, x in outputs.items()}


def in_order(
    rows: Sequence[Any],
    compute: Callable[[list], Sequence[Any]],
    *,
    length: Callable[[Any], int],
    batch_size: int,
    longest: int = 0,
    done: Callable[[int], None] | None = None,
    strategy: tf.distribute.Strategy | None = None,
) -> list:
    """Computes rows in batches of like length; returns outputs in their order.

    The longest are first: if memory is too small, the first batches fail. A
    batch has more than `batch_size` rows if they are short, but at most the
    lengths of `batch_size` rows of `longest`. `done` is called with the number
    of rows of each batch. `strategy` None = the current one. For several
    batches at once see `Kind`.
    """
    lengths = [length(row) for row in rows]
    order = sorted(range(len(rows)), key=lambda i: -lengths[i])
    batches = list(_cut(order, lengths, batch_size, longest))
    strategy = strategy or tf.distribute.get_strategy()
    # Several devices work together on each batch.
    is_alone = strategy.num_replicas_in_sync == 1
    at_once = devices.kind_of(strategy).at_once if is_alone else 1
    outputs = [None] * len(rows)
    pool = futures.ThreadPoolExecutor(at_once)
    apply = pool.map if min(at_once, len(batches)) > 1 else map
    try:
        of_batches = ([rows[i] for i in places] for places in batches)
        found = apply(compute, of_batches)
        for places, of_batch in zip(batches, found, strict=True):
            for i, output in zip(places, of_batch, strict=True):
                outputs[i] = output
            if done:
                done(len(places))
    finally:
        pool.shutdown(cancel_futures=True)  # after ^C, too
    return outputs


def _cut(order, lengths, batch_size, longest):
    """Cuts sorted rows into batches, as `length_batches.all_examples` does."""
    start = 0
    while start < len(order):
        first, end = lengths[order[start]], start + batch_size
        last = start + batch_size * longest // max(first, 1)
        shortest = first * length_batches.SHORTEST_PERCENT / 100
        while end < min(last, len(order)) and lengths[order[end]] >= shortest:
            end += 1
        yield order[start:end]
        start = end


class Evaluator(Inference):
    """Averages a model's metrics over batches, without dropout."""

    def __init__(self, model: Objective, work: float = 0.0):
        super().__init__(model.layers[0].compute_dtype, work)
        self._model = model

    def evaluate(
        self, make_batches: MakeBatches, *, num_steps: int
    ) -> dict[str, float]:
        """Averages the metrics of `num_steps` batches of equal size.

        Returns metric name -> mean over all examples; `loss` is the mean of
        the losses of the batches, as in the original.
        """
        sums = defaultdict(float)
        batches = self.over(make_batches, "an evaluation", num_steps)
        for outputs in tracked(batches, "evaluating", "batches", num_steps):
            for name, parts in outputs.items():
                metric = np.concatenate(parts).sum(axis=0)
                sums[name] += metric.astype(np.float64)
        return {name: losses.mean(metric) for name, metric in sums.items()}

    def compute(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Computes sum and weight of each metric, [1, 2]."""
        replica = tf.distribute.get_replica_context()
        weights = replica.all_reduce("SUM", self._model.loss_weights(batch))
        loss, metrics = self._model.losses(batch, weights, None)
        mean = tf.stack([loss, 1.0 / replica.num_replicas_in_sync])
        return {n: x[tf.newaxis] for n, x in {**metrics, "loss": mean}.items()}


class OutputCollector(Inference):
    """Collects the outputs of a model for every example.

    `outputs` takes a batch; None = the model's `score_examples`.
    """

    def __init__(self, model: Objective, outputs: Callable | None = None):
        super().__init__(model.layers[0].compute_dtype)
        self._config = model.config
        self._outputs = outputs or model.score_examples

    def of_records(
        self, files: RecordFiles, what: str, longest: int, **batching: Any
    ) -> dict[str, np.ndarray]:
        """Runs the model once over every example.

        Args:
          files: the examples; N in all.
          what: a word for the progress line.
          longest: S.
          **batching: see `length_batches.all_examples`.

        Returns:
          name -> array [N, ...] in the order of the files. `label_ids`,
          `label_mask` and `example_number` are there if the records have them.
          Rows of shorter batches are padded with zeros.
        """
        config = self._config
        multiple = devices.kind_of(self._strategy).multiple
        places = files.count * (multiple if batching["trim"] else longest)
        # The value in the first call counts, which traces the graph.
        self._work = places * config.num_hidden_layers * config.hidden_size
        columns = defaultdict(list)

        def make_batches(shard: Shard) -> tf.data.Dataset:
            return length_batches.all_examples(
                files, shard=shard, multiple=multiple, **batching
            )

        num_steps = None
        if not batching["trim"]:
            num_steps = -(-files.count // batching["batch_size"])
        elif devices.num_workers(self._strategy) > 1:  # reads all records
            num_steps = sum(1 for _ in make_batches(WHOLE))
        with (
            damage.naming_damage(files),
            Progress(what, total=files.count, unit="examples") as progress,
        ):
            for outputs in self.over(make_batches, what, num_steps):
                for name, parts in outputs.items():
                    columns[name] += parts
                real = outputs["is_real_example"]
                progress.advance(int(sum(part.sum() for part in real)))
        return _in_file_order(columns)

    def compute(self, batch: Batch) -> dict[str, tf.Tensor]:
        """See `TaskModel.score_examples`."""
        kept = {name: batch[name] for name in _KEPT if name in batch}
        return self._outputs(batch) | kept


def _in_file_order(columns) -> dict[str, np.ndarray]:
    """Sorts the rows of all batches by their place; drops the fillers."""
    real = np.concatenate([x[:, 0] for x in columns.pop("is_real_example")]) > 0
    places = np.concatenate([x[:, 0] for x in columns.pop("example_index")])
    # Ranks among the real examples.
    order = np.argsort(places[real], kind="stable")
    return {name: _stacked(x)[real][order] for name, x in columns.items()}


def _stacked(parts):
    """Concatenates batches; pads shorter ones with zeros."""
    most = np.max([part.shape[1:] for part in parts], axis=0).astype(int)
    missing = [most - part.shape[1:] for part in parts]
    widths = [[(0, 0), *((0, count) for count in x)] for x in missing]
    return np.concatenate(list(map(np.pad, parts, widths)))
