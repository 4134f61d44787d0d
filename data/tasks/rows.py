"""Reads tables as rows: tab- or comma-separated text, or JSON lines.

Each row knows its file and line, for error messages.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from absl import logging

from data.storage import files

# What may separate the cells of a csv file, the usual one first.
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
# Most characters of a quoted cell, to limit the memory of an unclosed quote.
_MAX_CELL = 2**27


class Column(NamedTuple):
    """The place of a value in a row.

    Attributes:
      name: name in the header.
      number: index from 0, -1 = the last, if the header lacks the name. None =
        the name is required.
      flag: the flag that names the column, for errors; "" = there is none.
    """

    name: str | None
    number: int | None = None
    flag: str = ""

    @classmethod
    def parse(cls, text: str, flag: str = "") -> "Column":
        """Parses a name such as `sentence` or a number such as `3`."""
        number = int(text) if text.lstrip("-").isdigit() else None
        return cls(text, number, flag)

    def __str__(self) -> str:
        if self.name is None or self.name == str(self.number):
            return str(self.number)
        if self.number is None:
            return repr(self.name)
        return f"{self.name!r} (or {self.number})"


class Row(NamedTuple):
    """One row of a table.

    Attributes:
      path: the file or other source of the rows.
      line: number of the line or example, from 1.
      number: index in the table, from 0, counting the header.
      names: names of the columns; empty without a header.
      cells: the values: strings in tables, any type in JSON and data sets.
    """

    path: str
    line: int
    number: int
    names: Sequence[str]
    cells: Sequence[Any]

    def fail(self, message: str) -> NoReturn:
        """Raises ValueError with file and line before the message."""
        raise ValueError(f"{self.path}, line {self.line}: {message}")

    def has(self, column: Column) -> bool:
        """Whether the row has a column."""
        if column.name in self.names:
            return True
        number = column.number
        width = len(self.cells)
        return number is not None and -width <= number < width

    def value(self, column: Column) -> Any:
        """Returns the value in a column; ValueError if there is none."""
        if column.name in self.names:
            return self.cells[self.names.index(column.name)]
        if not self.has(column):
            columns = ", ".join(self.names) or f"{len(self.cells)} columns"
            self.fail(
                f"there is no column {column}; it has {columns}. "
                f"{self._hint()}Name the columns as they are in the file, or "
                f"number them from 0{column.flag and f', by --{column.flag}'}."
            )
        return self.cells[column.number]

    def _hint(self) -> str:
        """Names the separator of a line that was read as one cell."""
        if len(self.names) != 1:
            return ""
        line = self.names[0]
        found = [name for mark, name in SEPARATORS.items() if mark in line]
        if not found:
            return ""
        return (
            f"That is one column, in which there are {' and '.join(found)}: if "
            "they separate columns, give --task_name=csv and end the file's "
            "name in .csv. "
        )

    def text(self, column: Column) -> str:
        """Returns the text in a column; ValueError if there is none."""
        value = self.value(column)
        if not isinstance(value, str):
            self.fail(
                f"column {column} is {json.dumps(value, default=str)}, "
                "expected a text."
            )
        return value

    def float(self, column: Column) -> float:
        """Returns the finite number in a column; ValueError if none."""
        value = self.value(column)
        try:
            number = float(value)
            if number - number == 0:  # neither infinite nor nan
                return number
        except (TypeError, ValueError):
            pass
        self.fail(f"column {column} is {value!r}, expected a number.")

    def label(self, column: Column, labels: Sequence[str]) -> str:
        """Returns the label in a column; ValueError if not in `labels`."""
        label = label_text(self.value(column))
        if label not in labels:
            self.fail(
                f"column {column} is {label!r}, which is no label; expected "
                f"{describe_labels(labels)}."
            )
        return label


def label_text(value: Any) -> str:
    """Returns a label as text; JSON values may be numbers or booleans."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def sorted_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Sorts the labels found in a file: 2 before 10, a before b."""
    return tuple(
        sorted(
            set(labels),
            key=lambda label: (
                (0, int(label), label) if label.isdecimal() else (1, 0, label)
            ),
        )
    )


def describe_labels(labels: Sequence[str]) -> str:
    """Returns the labels, or the first ten, for an error message."""
    if len(labels) > 10:
        return f"one of {', '.join(labels[:10])}, ... ({len(labels)} in all)"
    return f"one of {', '.join(labels)}"


def read_cells(
    path: str,
    delimiter: str = "\t",
    quotechar: str | None = None,
    *,
    keep_empty: bool = False,
) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a table as lists of cells.

    Args:
      path: UTF-8 text; a byte-order mark and carriage returns are dropped.
      delimiter: separates cells.
      quotechar: encloses cells that contain delimiters or line breaks; None =
        an ordinary character.
      keep_empty: yield [] for an empty line between rows; False = raise
        ValueError. Empty lines at the end of the file are ignored.

    Yields:
      The number of the row's last line, from 1, and the cells.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line is not UTF-8 or empty, or a quote is not closed.
    """
    if quotechar is None:
        # The csv module is slower and refuses cells of 131,073 characters.
        numbered = (
            (number, line.split(delimiter) if line else [])
            for number, line in enumerate(files.read_lines(path), start=1)
        )
    else:
        numbered = _quoted(path, delimiter, quotechar)
    has_rows, empty = False, []
    for line, cells in numbered:
        if not cells:
            empty.append(line)
            continue
        if empty and not (keep_empty and has_rows):
            raise ValueError(
                f"{path}: line {empty[0]} is empty; expected a row on each "
                "line. Remove it."
            )
        for empty_line in empty:
            yield empty_line, []
        yield line, cells
        has_rows, empty = True, []


def _quoted(
    path: str, delimiter: str, quotechar: str
) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a table with quotes."""
    lines = (f"{line}\n" for line in files.read_lines(path))
    # Long texts exceed the default, 131,072 characters. The limit is global to
    # the process.
    csv.field_size_limit(_MAX_CELL)
    reader = csv.reader(
        lines, delimiter=delimiter, quotechar=quotechar, strict=True
    )
    start = 1
    try:
        for cells in reader:
            yield reader.line_num, cells
            start = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, lines {start} to {reader.line_num}: {error}; expected "
            f"cells in quotes ({quotechar}) to be closed, and quotes in them "
            "doubled."
        ) from None


def find_separator(
    path: str, columns: Sequence[Column], quotechar: str | None
) -> str:
    """Finds out what separates the cells of a csv file, by its first line.

    Args:
      path: see `read_cells`.
      columns: those that are read.
      quotechar: see `read_cells`.

    Returns:
      The first of `SEPARATORS` by which the first line has all columns; the
      comma if there is none, but the line has commas; else the only other one
      in the line.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: see `read_cells`; or the line has several other separators.
    """
    first = {}
    for mark in SEPARATORS:
        cells = _first_cells(path, mark, quotechar)
        row = Row(path, 1, 0, cells, cells)
        # By numbers such as 0 and -1, a line of one cell has every column.
        is_wide = len(cells) >= len({column.name for column in columns})
        if is_wide and all(map(row.has, columns)):
            return mark
        first[mark] = len(cells)
    usual, *others = SEPARATORS
    found = [mark for mark in others if first[mark] > 1]
    if first[usual] > 1 or not found:
        return usual
    if len(found) > 1:
        raise ValueError(
            f"{path}: the first line has "
            f"{' and '.join(SEPARATORS[mark] for mark in found)}, and by none "
            "of them the columns "
            f"{', '.join(map(str, columns))}; what separates the columns? "
            "Write the table with commas, or name its columns by "
            "--text_columns and --label_column."
        )
    return found[0]


def _first_cells(path: str, delimiter: str, quotechar: str | None) -> list[str]:
    """The cells of the first row; [] if this separator does not fit it."""
    try:
        return next(read_cells(path, delimiter, quotechar), (1, []))[1]
    except ValueError:
        return []  # a quote in the middle of a cell


def read_table(
    path: str,
    *,
    header: bool = True,
    delimiter: str = "\t",
    quotechar: str | None = None,
    skip_broken: bool = False,
) -> Iterator[Row]:
    """Yields the rows of a table after the header; all have the same width.

    Args:
      path: see `read_cells`.
      header: whether the first row has the names of the columns.
      delimiter: see `read_cells`.
      quotechar: see `read_cells`.
      skip_broken: skip rows of another width and empty lines, and log their
        number.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: see `read_cells`; or a row has more or fewer cells than the
        first one.
    """
    names, width, broken = (), None, []
    rows = read_cells(path, delimiter, quotechar, keep_empty=skip_broken)
    for number, (line, cells) in enumerate(rows):
        if width is None:
            width = len(cells)
            if header:
                names = tuple(cells)
                continue
        row = Row(path, line, number, names, cells)
        if len(cells) == width:
            yield row
        elif skip_broken:
            broken.append(line)
        else:
            # Differs from the original: rows of another width are errors,
            # because a stray tab would turn a label into a text.
            row.fail(
                f"{len(cells)} columns, expected {width} as in the first line; "
                "is a delimiter inside a text, or missing?"
            )
    if broken:
        logging.warning(
            "%s: %d rows without %d columns are left out, the first is line "
            "%d.",
            path,
            len(broken),
            width,
            broken[0],
        )


def read_json_lines(path: str) -> Iterator[Row]:
    """Yields a row for each line, a JSON object whose keys are the columns.

    Args:
      path: UTF-8 text.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line is not UTF-8, or no JSON object.
    """
    for line, text in enumerate(files.read_lines(path), start=1):
        if not text.strip():
            continue
        try:
            fields = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{path}, line {line}: not JSON ({error}); expected one object "
                "on each line."
            ) from None
        if not isinstance(fields, dict):
            raise ValueError(
                f"{path}, line {line}: a {type(fields).__name__}, expected "
                'an object such as {"text": "...", "label": "..."}.'
            )
        yield Row(path, line, line - 1, tuple(fields), tuple(fields.values()))
