"""SWAG and CODAH: the best of four endings of a text."""

import os
from collections.abc import Iterator

from data.tasks import rows
from data.tasks.examples import ChoiceExample
from data.tasks.rows import Column, Row
from data.tasks.table_files import first_of, with_columns
from data.tasks.task import Task, register


class _Endings(Task):
    """A text, its four endings and the number of the right one in each row.

    `begin` is a column with the beginning of all endings; None = there is none.
    """

    kind = "choice"
    labels = ("0", "1", "2", "3")
    text: Column
    begin: Column | None = None
    endings: tuple[Column, ...]
    label: Column

    def rows_of(self, set_name: str) -> Iterator[Row]:
        """See `Task.rows_of`."""
        columns = [self.text, *self.endings, *filter(None, [self.begin])]
        columns += [self.label] * (set_name != "test")
        return with_columns(self.table(set_name), columns)

    def example(self, row: Row, set_name: str) -> ChoiceExample:
        """Converts a row; the label of a test set is not read."""
        begin = f"{row.text(self.begin)} " if self.begin else ""
        return ChoiceExample(
            f"{set_name}-{row.number}",
            [row.text(self.text)] * len(self.endings),
            [begin + row.text(column) for column in self.endings],
            row.label(self.label, self.labels) if set_name != "test" else None,
        )


@register("swag")
class Swag(_Endings):
    """What happens next in a film: train.csv, val.csv, test.csv.

    The input is `[CLS] sent1 [SEP] sent2 ending [SEP]`.

    Source: section 4.4 of the paper.
    """

    text = Column("sent1", 4)
    begin = Column("sent2", 5)
    endings = tuple(Column(f"ending{i}", 7 + i) for i in range(4))
    label = Column("label")

    def table(self, set_name: str) -> Iterator[Row]:
        """Yields the rows of a set's file."""
        name = "val.csv" if set_name == "dev" else f"{set_name}.csv"
        path = os.path.join(self.data_dir, name)
        return rows.read_table(path, delimiter=",", quotechar='"')


@register("codah")
class Codah(_Endings):
    """CODAH: one file, codah_full_data.tsv or full_data.tsv.

    Rows whose number (from 0) ends in 8 are the dev set, those whose number
    ends in 9 the test set and the others the train set, because consecutive
    rows of one author are similar.
    """

    text = Column(None, 1)
    endings = tuple(Column(None, 2 + i) for i in range(4))
    label = Column(None, 6)

    def table(self, set_name: str) -> Iterator[Row]:
        """Yields the rows of a set."""
        names = ("codah_full_data.tsv", "full_data.tsv")
        path = first_of(self.data_dir, names)
        path = path or os.path.join(self.data_dir, names[0])
        remainders = {"dev": (8,), "test": (9,)}.get(set_name, range(8))
        for row in rows.read_table(path, header=False):
            if row.number % 10 in remainders:
                yield row
