"""Training batches of texts: each text trimmed separately, or no duplicates.

With in-batch negatives, a duplicate of an example's positive text would be one
of its negatives, too.

Axes: N examples, C texts of an example, S wordpieces, B batch.
"""

import bisect
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from data.records import input_pipeline, length_batches, reading
from data.records.input_pipeline import RecordFiles
from data.records.shard import Shard
from data.text.packing import INPUTS

_BLOCK = 4096  # records read at once
# Above this share of examples that a pass leaves out, a warning is logged.
_MUCH = 0.05


def distinct_order(
    keys: np.ndarray, batch_size: int, rng: np.random.Generator
) -> np.ndarray:
    """Orders examples so that no batch has a key twice.

    Each example goes to the first batch with room after the last one that has
    any of its `keys`, int64 [N, C]. Batches that are not full are left out.
    Returns the places of the examples, int64 [batches, B].
    """
    batches, with_room, is_next = [], [], {}
    for place in rng.permutation(len(keys)).tolist():
        own = set(keys[place].tolist())
        least = max(is_next.get(key, 0) for key in own)
        at = bisect.bisect_left(with_room, least)
        if at == len(with_room):
            with_room.append(len(batches))
            batches.append([])
        number = with_room[at]
        batches[number].append(place)
        if len(batches[number]) == batch_size:
            del with_room[at]
        is_next |= dict.fromkeys(own, number + 1)
    full = [batch for batch in batches if len(batch) == batch_size]
    return np.array(full, np.int64).reshape(-1, batch_size)


class DistinctBatches:
    """Endless batches of records without equal texts, the same at every start.

    All records, with `input_ids` [C * S] each, are in memory, as they are to be
    shuffled. Raises ValueError if the texts do not fill one batch, of all
    workers.
    """

    def __init__(
        self, files: RecordFiles, *, num_texts: int, batch_size: int, seed: int
    ):
        self._files, self._batch_size, self._seed = files, batch_size, seed
        blocks, keys = [], []
        specs = [spec for spec in files.specs if spec.name == "input_ids"]
        for block in input_pipeline.file_order(files).batch(_BLOCK):
            blocks.append(block)
            ids = reading.parse_batch(specs, block)["input_ids"].numpy()
            # Equal texts have equal numbers.
            examples = ids.reshape(len(ids), num_texts, -1)
            keys += [[hash(x.tobytes()) for x in texts] for texts in examples]
        self._records = tf.concat(blocks, axis=0)
        self._keys = np.array(keys)
        count, used = len(self._keys), self._pass(0).size
        if not used:
            raise ValueError(
                f"--train_batch_size={batch_size}: {count} examples with "
                f"{len(np.unique(self._keys))} distinct texts cannot fill a "
                "batch without duplicates; give a smaller one, or more texts."
            )
        log = logging.warning if count - used > _MUCH * count else logging.info
        log(
            f"Each pass leaves out about {count - used} of {count} examples "
            f"(different ones each time), so that every batch of {batch_size} "
            "is full and has no duplicate text."
        )

    def _pass(self, number: int) -> np.ndarray:
        rng = np.random.default_rng([self._seed, number])
        return distinct_order(self._keys, self._batch_size, rng)

    def dataset(self, first_example: int, shard: Shard) -> tf.data.Dataset:
        """Returns a shard's rows of the batches after some examples."""
        rows = shard.rows_of(self._batch_size)
        size = shard.part_of(self._batch_size)

        def places():
            left = first_example // self._batch_size
            for number in itertools.count():
                order = self._pass(number)
                yield from order[left:, rows]
                left = max(0, left - len(order))

        spec = tf.TensorSpec([size], tf.int64)
        some = tf.data.Dataset.from_generator(places, output_signature=spec)
        records, specs = self._records, self._files.specs
        return some.map(
            lambda i: reading.parse_batch(specs, tf.gather(records, i))
        )


def text_batches(
    files: RecordFiles,
    *,
    num_texts: int,
    distinct: DistinctBatches | None,
    trim: Mapping[str, Any] | None,
    **place: Any,
) -> tf.data.Dataset:
    """Returns endless batches with inputs of each of C texts by its number.

    `input_ids_0` is [B, S'], trimmed to the longest first text of the batch,
    and so on. The batches are the `distinct` ones; None = those of
    `length_batches.training_batches`, also for the other arguments.
    """
    if distinct:
        batches = distinct.dataset(place["first_example"], place["shard"])
    else:
        batches = length_batches.training_batches(
            files, num_choices=num_texts, **place
        )

    def divided(batch):
        parts = [tf.split(batch.pop(x), num_texts, axis=1) for x in INPUTS]
        for number, texts in enumerate(zip(*parts, strict=True)):
            text = dict(zip(INPUTS, texts, strict=True))
            if trim is not None:
                text = length_batches.trim_batch(text, **trim)
            batch |= {f"{name}_{number}": x for name, x in text.items()}
        return batch

    return input_pipeline.mapped(batches, divided)
