"""Training batches in which no text occurs twice.

Other examples' texts are the negatives of an example, so that an equal text
would be right and wrong.

Axes: N examples, C texts of an example, S wordpieces, B batch.
"""

import numpy as np
import tensorflow as tf
from absl import logging

from data.records import input_pipeline, reading
from data.records.input_pipeline import RecordFiles
from data.records.shard import WHOLE, Shard

_BLOCK = 4096  # records read at once
# Above this share of examples that a pass leaves out, a warning is logged.
_MUCH = 0.05


def distinct_order(
    keys: np.ndarray, batch_size: int, rng: np.random.Generator
) -> np.ndarray:
    """Orders examples so that no batch has a key twice.

    Each example goes to the first batch with room behind the last one that has
    any of its keys. Batches that are not full are left out.

    Args:
      keys: int64 [N, C], numbers of the texts.
      batch_size: B.
      rng: draws the order.

    Returns:
      int64 [batches, B], places of the examples.
    """
    batches, following, is_next = [], [], {}

    def open_from(number):
        """The first batch with room; skips full ones by halving the path."""
        while following[number] != number:
            following[number] = following[following[number]]
            number = following[number]
        return number

    def add_batch():
        batches.append([])
        following.append(len(following))

    add_batch()
    for place in rng.permutation(len(keys)).tolist():
        own = set(keys[place].tolist())
        number = open_from(max(is_next.get(key, 0) for key in own))
        batches[number].append(place)
        if number + 1 == len(batches):
            add_batch()
        if len(batches[number]) == batch_size:
            following[number] = number + 1
        is_next |= dict.fromkeys(own, number + 1)
    full = [batch for batch in batches if len(batch) == batch_size]
    return np.array(full, np.int64).reshape(-1, batch_size)


class DistinctBatches:
    """Endless batches of records without equal texts, the same at every start.

    All records are in memory, as they are to be shuffled.

    Args:
      files: records with `input_ids`, [C * S] each.
      num_texts: C.
      batch_size: B, of all workers.
      seed: decides the order of each pass.

    Raises:
      ValueError: the texts do not fill one batch.
    """

    def __init__(
        self, files: RecordFiles, *, num_texts: int, batch_size: int, seed: int
    ):
        self._files, self._batch_size, self._seed = files, batch_size, seed
        blocks, keys = [], []
        for block in input_pipeline.file_order(files).batch(_BLOCK):
            blocks.append(block)
            ids = reading.parse_batch(
                [s for s in files.specs if s.name == "input_ids"], block
            )["input_ids"].numpy()
            keys.append(_keys(ids.reshape(len(ids), num_texts, -1)))
        self._records = tf.concat(blocks, axis=0)
        self._keys = np.concatenate(keys)
        self._passes: list[int] = []  # batches of each pass before the current
        self._order, self._first = self._pass(0), 0
        self._check()

    def _pass(self, number: int) -> np.ndarray:
        rng = np.random.default_rng([self._seed, number])
        return distinct_order(self._keys, self._batch_size, rng)

    def _check(self) -> None:
        count, used = len(self._keys), self._order.size
        if not used:
            raise ValueError(
                f"--train_batch_size={self._batch_size}: {count} examples with "
                f"{len(np.unique(self._keys))} distinct texts do not fill a "
                "batch in which no text occurs twice; give a smaller one, or "
                "more texts."
            )
        log = logging.warning if count - used > _MUCH * count else logging.info
        log(
            "Each pass leaves out about %d of %d examples, others each time, "
            "so that every batch of %d is full and has no text twice.",
            count - used,
            count,
            self._batch_size,
        )

    def places(self, step: int) -> np.ndarray:
        """Returns the places of the examples of a step, counted from 0."""
        if step < self._first:
            self._passes, self._first = [], 0
            self._order = self._pass(0)
        while step >= self._first + len(self._order):
            self._first += len(self._order)
            self._passes.append(len(self._order))
            self._order = self._pass(len(self._passes))
        return self._order[step - self._first]

    def dataset(
        self, first_example: int, shard: Shard = WHOLE
    ) -> tf.data.Dataset:
        """Returns a shard's rows of the batches after some examples."""
        rows = shard.rows_of(self._batch_size)
        size = shard.part_of(self._batch_size)

        def parse(step):
            places = tf.numpy_function(
                self.places, [step], tf.int64, stateful=False
            )
            places = tf.ensure_shape(places, [self._batch_size])[rows]
            batch = reading.parse_batch(
                self._files.specs, tf.gather(self._records, places)
            )
            return {
                name: tf.ensure_shape(x, [size, *x.shape[1:]])
                for name, x in batch.items()
            }

        steps = tf.data.Dataset.counter(first_example // self._batch_size)
        return steps.map(parse).prefetch(tf.data.AUTOTUNE)


def _keys(ids: np.ndarray) -> np.ndarray:
    """Numbers that are the same for equal rows of ids [N, C, S]; int64."""
    factors = np.random.default_rng(0).integers(
        2**63, size=ids.shape[-1], dtype=np.int64
    )
    return (ids.astype(np.int64) * (2 * factors + 1)).sum(axis=-1)
