"""Batches of record files, in an order that can resume at any example."""

import collections
import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from data.records import damage, reading
from data.records.damage import Segment
from data.records.feature_spec import FeatureSpec
from data.records.shard import WHOLE, Shard

# Records are read from this many files in parallel, as in the original.
_FILES_AT_ONCE = 4
# Differs from the original: it shuffles within 100 records, because a larger
# window costs a few megabytes and mixes better.
_SHUFFLE_WINDOW = 10_000
_SAMPLE = 1000  # records of each file whose values are checked at the start
_READ_BYTES = 256 << 10  # as tf.data.TFRecordDataset reads at once
_PARSED_AT_ONCE = 256  # records parsed in one call
# Reorders the shuffled serialized records of a pass. The other arguments are
# the number of the pass (int64 scalar), the files and the batch size.
Arrange = Callable[
    [tf.data.Dataset, tf.Tensor, "RecordFiles", int], tf.data.Dataset
]


@dataclasses.dataclass(frozen=True)
class RecordFiles:
    """Checked record files of one input, and the features of every record.

    A file has one segment, or if it is damaged, one for each undamaged part.
    """

    segments: tuple[Segment, ...]
    specs: tuple[FeatureSpec, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the files, without duplicates."""
        return tuple(dict.fromkeys(segment.path for segment in self.segments))

    @property
    def count(self) -> int:
        """The number of records in all files."""
        return sum(segment.count for segment in self.segments)

    def some(self, paths: Sequence[str]) -> "RecordFiles":
        """Returns the files with these paths."""
        kept = tuple(s for s in self.segments if s.path in paths)
        return dataclasses.replace(self, segments=kept)


def open_records(
    paths: Sequence[str],
    specs: Sequence[FeatureSpec],
    *,
    limits: dict[str, int],
    skip_bad_records: bool = False,
) -> RecordFiles:
    """Checks record files, plain or gzip, before a run starts.

    Every record's checksum is verified while counting; features and values are
    checked on each file's first 1000 records. Later ones are checked when their
    batch is parsed, see `naming_damage`. `limits` are feature name -> upper
    bound (exclusive) of its values, such as the size of the vocabulary for
    `input_ids`; names that are not in `specs` are ignored. With
    `skip_bad_records`, damaged records are left out, with a warning.

    Raises FileNotFoundError; tfrecord.DamagedError, which names the record, if
    a file is truncated, damaged or empty; ValueError if records do not match
    the specs, or no record can be read.
    """
    # The values of all records are checked while they are parsed.
    specs = tuple(spec._replace(limit=limits.get(spec.name)) for spec in specs)
    segments, losses = [], collections.Counter()
    for path in paths:
        found, lost = damage.find_segments(path, skip_bad_records)
        losses += lost
        segments += found
        damage.check_fit(found, specs, _SAMPLE)
    if not segments:
        raise ValueError(
            f"none of {len(paths)} record files has a record that can be read "
            f"({paths[0]}{', ...' if len(paths) > 1 else ''}); copy or write "
            "them again."
        )
    if losses:
        logging.warning(
            f"--skip_bad_records: {losses['files']} of {len(paths)} files are "
            f"damaged ({damage.describe(losses)})."
        )
    return RecordFiles(tuple(segments), specs)


def training_batches(
    files: RecordFiles,
    *,
    batch_size: int,
    seed: int,
    first_example: int = 0,
    shuffle_window: int = _SHUFFLE_WINDOW,
    arrange: Arrange | None = None,
    shard: Shard = WHOLE,
) -> tf.data.Dataset:
    """Returns endless shuffled full batches, the same at every start.

    The order in a pass depends only on the seed and the number of the pass. If
    there are at least as many files as workers, worker i of n reads files i, i
    + n, ... in passes of its own. Otherwise each reads all files and takes its
    rows of the batches that a single worker would get.

    `batch_size` is that of all workers. The first `first_example` examples of
    all workers are skipped: they were used before a resume. A `shuffle_window`
    of 1 record leaves the order. Returns feature name -> tensor [batch_size /
    shard.count, length]; ValueError if this is not a whole number.

    Source: `run_pretraining.input_fn_builder`.
    """
    size = shard.part_of(batch_size)
    if 1 < shard.count <= len(files.paths):
        files = _own_files(files, shard)
        # Rounded down if the number of workers has changed since the start.
        batch_size, first_example = size, first_example // shard.count
        shard = WHOLE
    elif shard.count > 1:
        logging.info(
            "Worker %d of %d reads all %d files, and takes %d of each %d "
            "records; with a file for each worker it would read its own alone.",
            *(shard.index, shard.count, len(files.paths), size, batch_size),
        )
    # Differs from the original: its order is different at every start
    # (unseeded, "sloppy"), so that no run can be repeated or resumed.
    first_pass, skipped = divmod(first_example, files.count)

    def pass_over(number):
        stream = _shuffled_pass(files, seed, number, shuffle_window)
        if arrange:
            stream = arrange(stream, number, files, batch_size)
        is_first = tf.equal(number, first_pass)
        return stream.skip(tf.where(is_first, np.int64(skipped), 0))

    numbers = tf.data.Dataset.counter(start=first_pass)
    return _parsed(numbers.flat_map(pass_over), files, batch_size, shard)


def _shuffled_pass(files, seed, number, shuffle_window):
    """Reads the records of one pass in an order that `seed` decides."""
    # Sets the seed of this function's graph only. Without it TensorFlow would
    # mix in the seed of the program. It takes seeds modulo 2^31 - 1 and fails
    # at 0.
    tf.random.set_seed(seed % (2**31 - 1) or 1)
    order = tf.random.experimental.stateless_shuffle(
        tf.range(len(files.segments)), seed=tf.stack([np.int64(seed), number])
    )
    stream = _read(files, order, side_by_side=_FILES_AT_ONCE)
    if shuffle_window > 1:
        seed = np.int64(seed) * 1_000_003 + number
        stream = stream.shuffle(
            shuffle_window, seed=seed, reshuffle_each_iteration=False
        )
    return stream


def _own_files(files, shard):
    """Returns the files that only this worker reads."""
    own = files.some(files.paths[shard.index :: shard.count])
    logging.info(
        f"Worker {shard.index} of {shard.count} reads {len(own.paths)} of "
        f"{len(files.paths)} files: {own.count} of {files.count} records."
    )
    share = own.count * shard.count / files.count
    if not 0.5 <= share <= 2:
        logging.warning(
            f"This worker has {share:.1f} times its share of the records, and "
            f"reads each {'less' if share > 1 else 'more'} often than other "
            "workers read theirs; write files of equal size."
        )
    return own


def evaluation_batches(
    files: RecordFiles, *, batch_size: int, shard: Shard = WHOLE
) -> tf.data.Dataset:
    """Returns endless full batches in file order, read by every worker.

    Each is feature name -> tensor [batch_size / shard.count, length]. The files
    are repeated, as in the original, whose evaluation always takes
    max_eval_steps batches.
    """
    return _parsed(file_order(files).repeat(), files, batch_size, shard)


def file_order(files: RecordFiles) -> tf.data.Dataset:
    """Returns the serialized records in file order, each once."""
    return _read(files, tf.range(len(files.segments)), side_by_side=1)


def mapped(batches: tf.data.Dataset, function: Callable) -> tf.data.Dataset:
    """Applies a function to batches by several threads, in their order."""
    return batches.map(
        function, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    ).prefetch(tf.data.AUTOTUNE)


def _read(files, order, side_by_side):
    """Reads the records of segments in `order`, several in parallel."""
    columns = map(np.array, zip(*files.segments, strict=True))
    paths, compressions, starts, _, counts = map(tf.constant, columns)

    def read(i):
        # tf.data.TFRecordDataset has no offset. Its kernel has one but cannot
        # be the outermost dataset, because its AsGraphDef leaves it out.
        variant = tf.raw_ops.TFRecordDatasetV2(
            filenames=[paths[i]],
            compression_type=compressions[i],
            buffer_size=tf.constant(_READ_BYTES, tf.int64),
            byte_offsets=[starts[i]],
        )
        spec = tf.TensorSpec([], tf.string)
        records = tf.data.experimental.from_variant(variant, spec)
        # tf.data takes some truncated records for the end of a file.
        complete = tf.data.experimental.assert_cardinality(counts[i])
        return records.take(counts[i]).apply(complete)

    at_once = min(side_by_side, len(files.segments))
    return tf.data.Dataset.from_tensor_slices(order).interleave(
        read, cycle_length=at_once, block_length=16
    )


def _parsed(stream, files, batch_size, shard):
    """Batches records before parsing, which is four times as fast."""
    size = shard.part_of(batch_size)
    # Several small batches are parsed together: half the time at 32 examples.
    together = max(1, _PARSED_AT_ONCE // size)
    parts = [together, batch_size]

    def parse(serialized):
        own = tf.reshape(serialized, parts)[:, shard.rows_of(batch_size)]
        own = tf.reshape(own, [together * size])
        return {
            name: tf.reshape(values, [together, size, values.shape[1]])
            for name, values in reading.parse_batch(files.specs, own).items()
        }

    return (
        stream.batch(together * batch_size, drop_remainder=True)
        .map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .unbatch()
        .prefetch(tf.data.AUTOTUNE)
    )
