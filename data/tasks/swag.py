"""Which of four endings goes on best: SWAG, and CODAH in the same form."""

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
        """Streams the examples of a set; those of the test set unlabelled."""
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
    """Commonsense endings: codah_full_data.tsv or full_data.tsv.

    There is one file. Of its rows, counted from 0, those whose number ends in
    8 are the dev set, in 9 the test set, the others the train set: writers'
    runs of like sentences are spread over all three.
    """

    def read(self, set_name: str) -> Iterator[ChoiceExample]:
        """Streams the rows of a set, all with their labels."""
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
