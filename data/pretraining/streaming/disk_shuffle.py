"""Shuffles more records than fit in memory, in random buckets on disk."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from data.records import tfrecord

# Approximate size of a bucket, which is shuffled in memory.
BUCKET_BYTES = 32 << 20


def shuffled(
    blocks: Iterable[Sequence[bytes]],
    path: str | None,
    num_bytes: int,
    rng: np.random.Generator,
) -> Iterator[bytes]:
    """Yields the records of all blocks in random order, each equally likely.

    The buckets are files in a new folder whose name starts with the local
    `path` (None = in the system's temporary folder). Closing the generator
    removes them. `num_bytes`, the approximate size of all records, decides the
    number of buckets, and thus the order.
    """
    num_buckets = 1 + num_bytes // BUCKET_BYTES
    if num_buckets == 1:
        yield from _mixed([r for records in blocks for r in records], rng)
        return
    parent, name = os.path.split(os.path.abspath(path or "records"))
    prefix, parent = f"{name}.shuffle-", parent if path else None
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as folder:
        buckets = [os.path.join(folder, f"{i:05d}") for i in range(num_buckets)]
        for records in blocks:
            numbers = rng.integers(num_buckets, size=len(records))
            for number in np.unique(numbers):
                places = np.flatnonzero(numbers == number)
                _append(buckets[number], [records[i] for i in places])
        for bucket in filter(os.path.exists, buckets):
            records = list(tfrecord.read_records(bucket))
            os.remove(bucket)
            yield from _mixed(records, rng)


def _mixed(records: list[bytes], rng: np.random.Generator) -> Iterator[bytes]:
    for i in rng.permutation(len(records)):
        yield records[i]


def _append(bucket: str, records: Iterable[bytes]) -> None:
    try:
        with open(bucket, "ab") as file:
            file.writelines(map(tfrecord.frame, records))
    except OSError as error:
        raise OSError(
            f"cannot write {os.path.dirname(bucket)}, the folder in which the "
            f"records of a shard are shuffled: {error}; free some space."
        ) from error
