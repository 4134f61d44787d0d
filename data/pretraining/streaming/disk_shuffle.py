"""Shuffles more records than fit in memory, in random buckets on disk."""

import os
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np

from data.records import tfrecord

# Approximate size of a bucket, which is shuffled in memory.
BUCKET_BYTES = 32 << 20


class DiskShuffle:
    """Returns the records that were added in a random order.

    Every order is equally likely. Use it as a context manager, which removes
    the files: buckets in a folder whose name begins with the local `path` (None
    = in the system's temporary folder). `num_bytes`, the approximate size of
    all records, decides the number of buckets, and so the order too.
    """

    def __init__(
        self, path: str | None, num_bytes: int, rng: np.random.Generator
    ):
        self._num_buckets = 1 + num_bytes // BUCKET_BYTES
        self._rng = rng
        self._in_memory: list[bytes] = []
        self._folder = None
        if self._num_buckets > 1:
            folder, name = os.path.split(os.path.abspath(path or "records"))
            self._folder = tempfile.TemporaryDirectory(
                prefix=f"{name}.shuffle-", dir=folder if path else None
            )

    def add(self, records: Sequence[bytes]) -> None:
        """Adds records."""
        if not self._folder:
            self._in_memory.extend(records)
            return
        bucket = self._rng.integers(self._num_buckets, size=len(records))
        order = np.argsort(bucket, kind="stable")
        starts = np.searchsorted(bucket[order], np.arange(self._num_buckets))
        try:
            for number, some in enumerate(np.split(order, starts[1:])):
                if len(some):
                    framed = [tfrecord.frame(records[i]) for i in some]
                    with open(self._path(number), "ab") as file:
                        file.writelines(framed)
        except OSError as error:
            raise OSError(
                f"cannot write {self._folder.name}, the folder in which the "
                f"records of a shard are shuffled: {error}; free some space."
            ) from error

    def shuffled(self) -> Iterator[bytes]:
        """Yields all records in random order; can be called once."""
        for number in range(self._num_buckets):
            records = self._read(number) if self._folder else self._in_memory
            for i in self._rng.permutation(len(records)):
                yield records[i]

    def _read(self, number: int) -> list[bytes]:
        if not os.path.exists(self._path(number)):
            return []
        records = list(tfrecord.read_records(self._path(number)))
        os.remove(self._path(number))
        return records

    def _path(self, number: int) -> str:
        return os.path.join(self._folder.name, f"{number:05d}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._folder:
            self._folder.cleanup()
