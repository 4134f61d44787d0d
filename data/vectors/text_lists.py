"""Texts of a file, in their order."""

import os
from collections.abc import Iterable, Iterator

import numpy as np

from data.storage import files
from data.tasks import rows
from data.tasks.rows import Column
from data.tasks.table_files import TableFiles

_TABLES = (".tsv", ".csv", ".jsonl")


def read_texts(path: str, column: str = "") -> Iterator[str]:
    """Yields the text of each line, or of each row of a tsv, csv or jsonl file.

    `column` is the column of a table's texts; "" = `text`. An empty line is an
    empty text. Raises FileNotFoundError if there is no such file, ValueError if
    it is not UTF-8 or lacks the column.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _TABLES:
        if column:
            raise ValueError(
                f"--text_columns={column} is for {', '.join(_TABLES)} files, "
                f"but {path} has a text on each line; leave it out."
            )
        yield from files.read_lines(path)
        return
    files.require_file(path, "text")
    place = Column.parse(column or "text", "text_columns")
    table = TableFiles(
        data_dir="",
        names={"train": path},
        suffixes=_TABLES,
        columns=[place],
    ).read("train")
    yield from rows.converted(table, lambda row: row.text(place))


class TextList:
    """All texts of a file as one string of bytes; `list[place]` is a text.

    Attributes:
      is_empty: bool [N], texts of white space only.
    """

    def __init__(self, texts: Iterable[str]):
        self._bytes, ends, empty = bytearray(), [0], []
        for text in texts:
            self._bytes += text.encode("utf-8", "surrogatepass")
            ends.append(len(self._bytes))
            empty.append(not text.strip())
        self._ends = np.array(ends)
        self.is_empty = np.array(empty, bool)

    def __getitem__(self, place: int) -> str:
        start, end = self._ends[place : place + 2]
        return self._bytes[start:end].decode("utf-8", "surrogatepass")
