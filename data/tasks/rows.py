"""Tables to rows: tab- or comma-separated text, or one JSON object a line.

Every row knows where it stands, so that what is wrong with it can be said
with file and line.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from absl import logging

from data.storage import files

# Longest cell of a quoted table, in characters: it bounds the memory that an
# unclosed quote takes.
_MAX_CELL = 2**27


class Column(NamedTuple):
    """Where a value stands in a row.

    Attributes:
      name: in the header; looked for first.
      number: from 0, -1 = the last; where no header has that name. None = it
        must be there by name.
    """

    name: str | None
    number: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Column":
        """Reads `sentence` as a name and `3` as a number."""
        if text.lstrip("-").isdigit():
            return cls(text, int(text))
        return cls(text)

    def __str__(self) -> str:
        if self.name is None or self.name == str(self.number):
            return str(self.number)
        if self.number is None:
            return repr(self.name)
        return f"{self.name!r} (or {self.number})"


class Row(NamedTuple):
    """One row of a table.

    Attributes:
      path: the file, or what else the rows come from.
      line: its line (or example), from 1.
      number: its place in the table, from 0, the header counted.
      names: of the columns; empty without a header.
      cells: the values: strings, but of JSON and of data sets anything.
    """

    path: str
    line: int
    number: int
    names: Sequence[str]
    cells: Sequence[Any]

    def fail(self, message: str) -> NoReturn:
        """Raises ValueError with the row's place before a message."""
        raise ValueError(f"{self.path}, line {self.line}: {message}")

    def has(self, column: Column) -> bool:
        """Whether the row has a column."""
        if column.name in self.names:
            return True
        number = column.number
        width = len(self.cells)
        return number is not None and -width <= number < width

    def value(self, column: Column) -> Any:
        """The value in a column.

        Raises:
          ValueError: there is no such column.
        """
        if column.name in self.names:
            return self.cells[self.names.index(column.name)]
        if not self.has(column):
            columns = ", ".join(self.names) or f"{len(self.cells)} columns"
            self.fail(
                f"there is no column {column}; it has {columns}. Name the "
                "columns as they are in the file, or number them from 0."
            )
        return self.cells[column.number]

    def text(self, column: Column) -> str:
        """The text in a column, as it stands there.

        Raises:
          ValueError: there is no such column, or no text in it.
        """
        value = self.value(column)
        if not isinstance(value, str):
            self.fail(
                f"column {column} is {json.dumps(value, default=str)}, "
                "expected a text."
            )
        return value

    def float(self, column: Column) -> float:
        """The finite number in a column.

        Raises:
          ValueError: there is no such column, or no number in it.
        """
        value = self.value(column)
        try:
            number = float(value)
            if number - number == 0:  # neither infinite nor nan
                return number
        except (TypeError, ValueError):
            pass
        self.fail(f"column {column} is {value!r}, expected a number.")

    def label(self, column: Column, labels: Sequence[str]) -> str:
        """The label in a column.

        Args:
          column: where it stands.
          labels: those that are allowed.

        Raises:
          ValueError: there is no such column, or another label in it.
        """
        label = label_text(self.value(column))
        if label not in labels:
            self.fail(
                f"column {column} is {label!r}, which is no label; expected "
                f"{describe_labels(labels)}."
            )
        return label


def label_text(value: Any) -> str:
    """A label's text; of JSON it may also be a number, true or false."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def sorted_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Gives labels found in a file their order: 2 before 10, a before b."""
    return tuple(
        sorted(
            set(labels),
            key=lambda label: (
                (0, int(label), label) if label.isdecimal() else (1, 0, label)
            ),
        )
    )


def describe_labels(labels: Sequence[str]) -> str:
    """The labels for an error message: the first ten of many."""
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
    """Streams the rows of a table as they are.

    Args:
      path: UTF-8 text; a byte-order mark and carriage returns are dropped.
      delimiter: between two cells.
      quotechar: a cell that begins with it goes on to the next one, over
        delimiters and lines; None = it is a character as any other.
      keep_empty: yield an empty line between two rows as a row of no cells;
        False = raise ValueError.

    Yields:
      For each row the number of its last line, from 1, and its cells; none
      for empty lines at the file's end.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line is not UTF-8 or empty, or a quote is not closed.
    """
    if quotechar is None:
        # csv does the same more slowly, and refuses cells of 131,073
        # characters.
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
                f"{path}: an empty line stands before line {line}; expected a "
                "row on every line. Remove it."
            )
        for empty_line in empty:
            yield empty_line, []
        yield line, cells
        has_rows, empty = True, []


def _quoted(
    path: str, delimiter: str, quotechar: str
) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table with quotes."""
    lines = (f"{line}\n" for line in files.read_lines(path))
    # The default, 131,072 characters, is less than a long text has. The limit
    # is one for the whole process.
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


def read_table(
    path: str,
    *,
    header: bool = True,
    delimiter: str = "\t",
    quotechar: str | None = None,
    skip_broken: bool = False,
) -> Iterator[Row]:
    """Streams the rows of a table, all of one width.

    Args:
      path: see `read_cells`.
      header: whether the first row names the columns.
      delimiter: see `read_cells`.
      quotechar: see `read_cells`.
      skip_broken: leave out rows of another width and empty lines; how many
        is logged.

    Yields:
      The rows without the header.

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
            # Differs from the original: it takes rows of any width, because
            # of which a stray tab makes a text of a label.
            row.fail(
                f"{len(cells)} columns, expected {width} as in the first line; "
                "is a delimiter inside a text, or missing?"
            )
    if broken:
        logging.warning(
            "%s: %d rows have not %d columns and are left out, the first is "
            "line %d.",
            path,
            len(broken),
            width,
            broken[0],
        )


def read_json_lines(path: str) -> Iterator[Row]:
    """Streams a file of one JSON object a line.

    Args:
      path: UTF-8 text.

    Yields:
      A row for each object: its keys are the columns.

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
                f"{path}, line {line}: no JSON ({error}); expected one object "
                "on every line."
            ) from None
        if not isinstance(fields, dict):
            raise ValueError(
                f"{path}, line {line}: a {type(fields).__name__}, expected "
                'an object such as {"text": "...", "label": "..."}.'
            )
        yield Row(path, line, line - 1, tuple(fields), tuple(fields.values()))
