"""The part of every batch that one of several workers reads."""

from typing import NamedTuple


class Shard(NamedTuple):
    """The part of every batch that worker `index` (from 0) of `count` reads."""

    index: int = 0
    count: int = 1

    def part_of(self, num_rows: int) -> int:
        """Returns this worker's number of a batch's rows; all have as many."""
        if num_rows % self.count:
            raise ValueError(
                f"batch_size is {num_rows}, but {self.count} workers share it; "
                f"give a multiple of {self.count}."
            )
        return num_rows // self.count

    def rows_of(self, num_rows: int) -> slice:
        """Returns this worker's rows of a batch of all workers."""
        size = self.part_of(num_rows)
        return slice(self.index * size, (self.index + 1) * size)


# The only worker, which reads all rows.
WHOLE = Shard()
