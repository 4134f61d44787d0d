"""SWAG and CODAH: the best of four endings of a text."""

import os
from collections.abc import Iterator

from data.storage import files
from data.tasks import rows
from data.tasks.examples import ChoiceExample
from data.tasks.rows import Column
from data.tasks.task import Task, register

_NUM_CHOICES = 4


class _Endings(Task):
    """A beginning and four endings."""

    kind = "choice"
    labels = tuple(str(i) for i in range(_NUM_CHOICES))


@register("swag")
class Swag(_Endings):
    """What happens next in a film: train.csv, val.csv, test.csv.

    The input is `[CLS] sent1 [SEP] sent2 ending [SEP]`.

    Source: section 4.4 of the paper.
    """

    def read(self, set_name: str) -> Iterator[ChoiceExample]:
        """Yields the examples of a set; the test set has no labels."""
        name = {"dev": "val"}.get(set_name, set_name)
        path = os.path.join(self.data_dir, f"{name}.csv")
        first, second = Column("sent1", 4), Column("sent2", 5)
        for row in rows.read_table(path, delimiter=",", quotechar='"'):
            endings = [
                row.text(Column(f"ending{i}", 7 + i))
                for i in range(_NUM_CHOICES)
            ]
            label = None
            if set_name != "test":
                label = row.label(Column("label"), self.labels)
            yield ChoiceExample(
                f"{set_name}-{row.number}",
                [row.text(first)] * _NUM_CHOICES,
                [f"{row.text(second)} {ending}" for ending in endings],
                label,
            )


@register("codah")
class Codah(_Endings):
    """CODAH: one file, codah_full_data.tsv or full_data.tsv.

    Rows whose number (from 0) ends in 8 are the dev set, those whose number
    ends in 9 the test set and the others the train set, because consecutive
    rows of one author are similar.
    """

    def read(self, set_name: str) -> Iterator[ChoiceExample]:
        """Yields the rows of a set, all with their labels."""
        path = os.path.join(self.data_dir, "codah_full_data.tsv")
        released = os.path.join(self.data_dir, "full_data.tsv")
        if not files.exists(path) and files.exists(released):
            path = released
        remainders = {"dev": (8,), "test": (9,)}.get(set_name, range(8))
        for row in rows.read_table(path, header=False):
            if row.number % 10 not in remainders:
                continue
            yield ChoiceExample(
                f"{set_name}-{row.number}",
                [row.text(Column(None, 1))] * _NUM_CHOICES,
                [row.text(Column(None, 2 + i)) for i in range(_NUM_CHOICES)],
                row.label(Column(None, 6), self.labels),
            )
