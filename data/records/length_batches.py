"""Batches with less padding: trimmed, and grouped by length.

Padding after the longest example of a batch changes no result. It costs as much
as text, and most sentences are a tenth of the maximum length.

Axes: B batch, S sequence, C choices (1 but for multiple choice), W examples
of a window.
"""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from data.records import input_pipeline, reading
from data.records.feature_spec import TEACHER_LOGITS
from data.records.input_pipeline import RecordFiles
from data.records.shard import WHOLE, Shard
from data.text.packing import INPUTS

# Examples are grouped by length within this many batches: enough to find
# examples of similar length, and few enough to keep the order of a pass random.
_BATCHES_OF_WINDOW = 100
# A window of large batches has fewer of them, but at least two, to stay near
# this many examples: about 200 megabytes at S = 512 while they are sorted.
_EXAMPLES_OF_WINDOW = 20_000
# Examples of an evaluation that are sorted at once: about ten megabytes.
_SORTED_AT_ONCE = 20_000
# Every example of an evaluation batch has at least 85 % of the length of the
# longest one, except where the batch is filled up to a multiple of B. At B 32,
# 1,043 sentences of CoLA give 8 batches with 9 % padding; without this limit 5
# with 18 %, at 100 % 17 with 4 %.
SHORTEST_PERCENT = 85
# Lengths of trimmed training batches where XLA compiles each length: eight
# between a power of two and the next (8, 10, ... 32, 36, ... 64, 72, ...). With
# four, the padding cost as much as compiling saved.
_LENGTHS = [
    *(8, 10, 12, 14),
    *(part << k for k in range(1, 28) for part in range(8, 16)),
]


def training_batches(
    files: RecordFiles,
    *,
    seed: int,
    shuffle_window: int = 0,
    trim: Mapping[str, Any] | None = None,
    group_by_length: bool = False,
    num_choices: int = 1,
    **place: Any,
) -> tf.data.Dataset:
    """Returns endless shuffled full batches, the same at every start.

    See `input_pipeline.training_batches`, also for `place`. A `shuffle_window`
    of 0 is all records. `trim` are options of `trim_batch`, which cuts each
    worker's batch to its longest example; None for a TPU, which needs one
    length. `group_by_length` puts examples of similar length into a batch; each
    pass still contains every example once, unless the batch size changes in it.

    Source: `run_classifier.file_based_input_fn_builder`.
    """
    # Differs from the original: it repeats first and then shuffles within 100
    # records, so that passes mix, and a file sorted by label stays sorted.
    batches = input_pipeline.training_batches(
        files,
        seed=seed,
        shuffle_window=shuffle_window or files.count,
        arrange=grouping(seed, num_choices) if group_by_length else None,
        **place,
    )
    if trim is None:
        return batches
    return trimmed(batches, num_choices=num_choices, **trim)


def trimmed(batches: tf.data.Dataset, **options: Any) -> tf.data.Dataset:
    """Cuts the padding of every batch with `trim_batch` and its options."""
    trim = functools.partial(trim_batch, **options)
    return input_pipeline.mapped(batches, trim)


def all_examples(
    files: RecordFiles,
    *,
    batch_size: int,
    trim: bool = True,
    multiple: int = 1,
    num_choices: int = 1,
    shard: Shard = WHOLE,
) -> tf.data.Dataset:
    """Returns every example once, approximately the longest first.

    A batch holds examples of similar length: more than B examples if they are
    short, but at most the wordpieces of B examples of full length. `trim` is
    False for a TPU, which needs one shape; see `trim_batch` for the others.

    The result has batches of R examples, a multiple of B; each of several
    workers has R / shard.count rows. `example_index` int32 [R, 1] is an
    example's place in the files. `is_real_example` [R, 1] is the record's, by
    default 1, and 0 for the copies that fill a batch up.
    """
    shard.part_of(batch_size)
    if trim:
        stream = _sorted_batches(files, batch_size, num_choices)
    else:
        stream = input_pipeline.file_order(files).enumerate().batch(batch_size)

    def parse(indices, serialized):
        batch = reading.parse_batch(files.specs, serialized)
        batch["example_index"] = tf.cast(indices, tf.int32)[:, tf.newaxis]
        size = batch_size
        if trim:
            size *= -(-tf.size(indices) // batch_size)
        batch = _filled_up(batch, size)
        if trim:
            batch = trim_batch(
                batch, num_choices, exact=True, multiple=multiple
            )
        return {
            name: tf.split(x, shard.count)[shard.index]
            for name, x in batch.items()
        }

    return input_pipeline.mapped(stream, parse)


def _sorted_batches(files, batch_size, num_choices):
    """Returns batches of (indices, serialized examples), longest first.

    Only `_SORTED_AT_ONCE` examples at a time are sorted.
    """
    (size,) = (s.length for s in files.specs if s.name == "input_mask")

    def cut(indices, serialized):
        lengths = _lengths(files.specs, num_choices, serialized)
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)
        cuts = _cuts(tf.gather(lengths, order), batch_size, size // num_choices)
        indices = tf.gather(indices, order)
        serialized = tf.gather(serialized, order)
        return tf.data.Dataset.from_tensor_slices((cuts[:-1], cuts[1:])).map(
            lambda start, end: (indices[start:end], serialized[start:end])
        )

    stream = input_pipeline.file_order(files).enumerate()
    return stream.batch(_SORTED_AT_ONCE).flat_map(cut)


def _cuts(lengths, batch_size, longest):
    """Returns where batches begin, and the end of the last: int32, 0 to W.

    `lengths` are int32 [W], the longest first. A batch has at most `batch_size`
    * `longest` wordpieces, and all but the last a multiple of `batch_size`
    examples.
    """
    starts = tf.range(0, tf.size(lengths), batch_size)
    # The batch that would begin at each multiple of B.
    first = lengths[::batch_size]
    shortest = -(-first * SHORTEST_PERCENT // 100)
    alike = tf.searchsorted(-lengths, -shortest, side="right") - starts
    most = tf.minimum(longest // first, -(-alike // batch_size)) * batch_size
    ends = tf.minimum(starts + most, tf.size(lengths))
    (cuts,) = tf.while_loop(
        lambda cuts: cuts[-1] < tf.size(lengths),
        lambda cuts: [tf.concat([cuts, [ends[cuts[-1] // batch_size]]], 0)],
        [tf.constant([0])],
        shape_invariants=[tf.TensorShape([None])],
    )
    return cuts


def trimmed_lengths(seq_length: int, multiple: int = 1) -> list[int]:
    """Returns the lengths for rows of S: the multiples of `multiple`, and S."""
    lengths = [n for n in _LENGTHS if n < seq_length and n % multiple == 0]
    return [*lengths, seq_length]


def trim_batch(
    batch: dict[str, tf.Tensor],
    num_choices: int = 1,
    *,
    exact: bool = False,
    multiple: int = 1,
) -> dict[str, tf.Tensor]:
    """Cuts the padding after the longest example of a batch.

    Features of wordpieces are [B, C * S] (C choices, 1 but for multiple choice)
    and become [B, C * S'], scores of wordpieces [B, S * L] likewise. S' is one
    of `trimmed_lengths` or, if `exact`, which is for shapes that are not
    compiled, the length of the longest example; in both cases S or a multiple
    of `multiple`, as a GPU needs it.
    """
    names = [*INPUTS]
    if "document_ids" in batch:
        names.append("document_ids")
    if "label_mask" in batch:  # else label_ids do not belong to wordpieces
        names += ["label_ids", "label_mask"]
    if TEACHER_LOGITS in batch and {"label_mask", "start_positions"} & {*batch}:
        names.append(TEACHER_LOGITS)
    size = batch["input_mask"].shape[1] // num_choices
    length = tf.reduce_max(_needed(batch["input_mask"], num_choices))
    if exact:
        length = tf.minimum(-(-length // multiple) * multiple, size)
    else:
        lengths = tf.constant(trimmed_lengths(size, multiple))
        length = lengths[tf.searchsorted(lengths, [length])[0]]

    def cut(x):
        width = x.shape[1] // (num_choices * size)  # L for scores, else 1
        rows = tf.reshape(x, [-1, num_choices, size, width])[:, :, :length]
        rows = tf.reshape(rows, [tf.shape(x)[0], num_choices * length * width])
        # Keeps the static batch size, which strategies need.
        return tf.ensure_shape(rows, [x.shape[0], None])

    return batch | {name: cut(batch[name]) for name in names}


def _needed(input_mask, num_choices):
    """Length of each example without padding, over all choices: int32 [B].

    It is at least 1: the original's records for a TPU contain empty examples.
    """
    rows = tf.reshape(input_mask, [tf.shape(input_mask)[0], num_choices, -1])
    places = tf.range(1, tf.shape(rows)[2] + 1)
    return tf.maximum(1, tf.reduce_max(rows * places, axis=[1, 2]))


def _lengths(specs, num_choices, serialized):
    """`_needed` of serialized examples: int32 [W]."""
    masks = [spec for spec in specs if spec.name == "input_mask"]
    batch = reading.parse_batch(masks, serialized)
    return _needed(batch["input_mask"], num_choices)


def grouping(seed: int, num_choices: int = 1) -> input_pipeline.Arrange:
    """Returns a reordering of a pass into batches of similar length."""

    def arrange(stream, number, files, batch_size):
        # A batch can contain the end of one pass and the begin of the next:
        # this many records complete the batch of the previous pass.
        rest = -(number * files.count) % batch_size
        most = max(2, _EXAMPLES_OF_WINDOW // batch_size)
        size = min(_BATCHES_OF_WINDOW, most) * batch_size

        def group(i, window):
            lengths = _lengths(files.specs, num_choices, window)
            of_window = tf.stack([np.int64(seed), number * 1_000_003 + i])
            order = _grouped_order(lengths, batch_size, seed=of_window)
            return tf.data.Dataset.from_tensor_slices(tf.gather(window, order))

        windows = stream.skip(rest).batch(size).enumerate().flat_map(group)
        return stream.take(rest).concatenate(windows)

    return arrange


def _grouped_order(lengths, batch_size, *, seed):
    """Returns an order of examples [W] that groups them by length.

    Batches are in random order; an incomplete one comes last.
    """
    num_examples = tf.shape(lengths)[0]
    whole = num_examples // batch_size * batch_size
    order = tf.argsort(lengths[:whole], stable=True)
    order = tf.reshape(order, [-1, batch_size])
    order = tf.random.experimental.stateless_shuffle(order, seed=seed)
    rest = tf.range(whole, num_examples)
    return tf.concat([tf.reshape(order, [-1]), rest], axis=0)


def _filled_up(batch, size):
    """Fills a batch up to a size with copies of its first example."""
    places = tf.range(size)
    is_added = places >= tf.shape(batch["example_index"])[0]
    rows = tf.where(is_added, 0, places)
    batch = {name: tf.gather(x, rows) for name, x in batch.items()}
    real = batch.get("is_real_example", tf.ones_like(batch["example_index"]))
    batch["is_real_example"] = tf.where(is_added[:, tf.newaxis], 0, real)
    return batch
