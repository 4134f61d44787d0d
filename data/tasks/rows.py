"""Reads tables as rows: tab- or comma-separated text, or JSON lines.

Each row knows its file and line, for error messages.
"""

import contextlib
import csv
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

from absl import logging

from data.storage import files

# An error for the set that `%` fills in, such as `train`.
EMPTY_SET = (
    "the %s set is empty, expected at least one row; lines end with a line "
    "feed, not with a carriage return alone."
)
# What may separate cells: the usual one first, with its name.
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
# Most characters of a quoted cell, to limit the memory of an unclosed quote.
_MAX_CELL = 2**27
_MOST_SHOWN = 20  # bad rows in an error

T = TypeVar("T")


class Column(NamedTuple):
    """The place of a value in a row.

    `number` is the index from 0 (-1 = the last) if the header lacks `name`;
    None = the name is required. `flag` names the column's flag for errors; "" =
    none.
    """

    name: str | None
    number: int | None = None
    flag: str = ""

    @classmethod
    def parse(cls, text: str, flag: str = "") -> "Column":
        """Parses a name such as `sentence` or a number such as `3`."""
        number = int(text) if text.removeprefix("-").isdecimal() else None
        return cls(text, number, flag)

    def __str__(self) -> str:
        if self.name is None or self.name == str(self.number):
            return str(self.number)
        if self.number is None:
            return repr(self.name)
        return f"{self.name!r} (or {self.number})"


class BadRow(ValueError):
    """Rows that cannot be read or converted: the line and a message of each."""

    def __init__(self, *rows: tuple[int, str]):
        self.rows, text = rows, "\n".join(x for _, x in rows[:_MOST_SHOWN])
        if len(rows) > 1:
            text = f"{len(rows)} rows are wrong, the first:\n{text}"
        super().__init__(text)


class Row(NamedTuple):
    """One row of a table.

    `path` is the file or other source, `line` the number of the row's first
    line, or of the example, from 1, and `number` its index in the table, from
    0, counting the header. `names` are empty without a header. `cells` are
    strings in tables, and of any type in JSON and data sets.
    """

    path: str
    line: int
    number: int
    names: Sequence[str]
    cells: Sequence[Any]

    def fail(self, message: str) -> NoReturn:
        """Raises BadRow with file and line before the message."""
        raise BadRow((self.line, f"{self.path}, line {self.line}: {message}"))

    def refuse(self, column: Column, value: Any, expected: str) -> NoReturn:
        """Raises BadRow for a value that is found in a column."""
        self.fail(f"column {column} is {value!r}, expected {expected}.")

    def has(self, column: Column) -> bool:
        """Whether the row has a column."""
        return self._place(column) is not None

    def _place(self, column: Column) -> int | None:
        """Returns the place of a column from 0; None = there is none."""
        if column.name in self.names:
            return self.names.index(column.name)
        number, width = column.number, len(self.cells)
        if number is None or not -width <= number < width:
            return None
        return number % width

    def place(self, column: Column) -> int:
        """Returns the place of a column from 0; ValueError if none."""
        place = self._place(column)
        if place is None:
            raise ValueError(self.lack(column))
        return place

    def lack(self, column: Column) -> str:
        """Returns an error's text about a column that is missing."""
        cells = self.names or self.cells
        columns = ", ".join(self.names) or f"{len(cells)} columns"
        remedy = "Rename it in the file, as the task's files have it."
        only = cells[0] if len(cells) == 1 else ""
        found = [name for mark, name in SEPARATORS.items() if mark in only]
        if column.flag:
            remedy = (
                "Name the columns as they are in the file, or in tsv and csv "
                f"files number them from 0, by --{column.flag}."
            )
        if column.flag and found:
            remedy = (
                f"That is one column, in which there are {'s and '.join(found)}"
                "s: if they separate columns, let the file's name end in .csv, "
                f"or give --separator={found[0]} where there is this flag. "
                f"{remedy}"
            )
        return (
            f"{self.path}, line {self.line}: there is no column {column}; it "
            f"has {columns}. {remedy}"
        )

    def check_columns(self, columns: Collection[Column]) -> None:
        """Refuses a missing column whose number is the place of another one.

        A number that is used although the header names others is warned of.
        """
        named = [c.name for c in columns if c.name in self.names]
        for column in columns:
            if not named or column.name in named:
                continue
            found = self.names[self.place(column)]
            if found in named:
                raise ValueError(self.lack(column))
            logging.warning(
                "%s has no column %r: column %d, %r, is read.",
                *(self.path, column.name, column.number, found),
            )

    def value(self, column: Column) -> Any:
        """Returns the value in a column; ValueError if there is none."""
        return self.cells[self.place(column)]

    def is_empty(self, column: Column) -> bool:
        """Whether the cell of a column is empty or missing."""
        value = self.value(column) if self.has(column) else None
        is_blank = isinstance(value, str) and not value.strip()
        return is_blank or is_missing(value)

    def text(self, column: Column) -> str:
        """Returns the text in a column; ValueError if there is none."""
        value = self.value(column)
        if not isinstance(value, str):
            self.refuse(column, value, "a text")
        return value

    def float(self, column: Column) -> float:
        """Returns the finite number in a column; ValueError if none."""
        value = self.value(column)
        with contextlib.suppress(TypeError, ValueError):
            if math.isfinite(number := float(value)) and "_" not in str(value):
                return number
        self.refuse(column, value, "a number")

    def texts(self, column: Column) -> tuple[str, ...]:
        """Returns the texts in a list, or in a cell with a JSON list."""
        value = self.value(column)
        if isinstance(value, str):
            with contextlib.suppress(json.JSONDecodeError):  # refused below
                value = json.loads(value)
        if not isinstance(value, list) or any(
            is_missing(item) or isinstance(item, list | dict) for item in value
        ):
            example = 'a JSON list of texts such as ["a", "b"]'
            self.refuse(column, value, example)
        return tuple(map(label_text, value))

    def label(self, column: Column, labels: Sequence[str]) -> str:
        """Returns the label in a column; ValueError if not in `labels`."""
        return self.known(label_text(self.value(column)), column, labels)

    def known(self, label: str, column: Column, labels: Sequence[str]) -> str:
        """Returns a label found in a column; refuses it if not in `labels`."""
        if label not in labels:
            self.refuse(column, label, describe_labels(labels))
        return label


def converted(table: Iterable[Row], convert: Callable[[Row], T]) -> Iterator[T]:
    """Yields what `convert` makes of each row of a table.

    Raises ValueError after the last row, with the first twenty bad rows and how
    many there are.
    """
    bad = []
    try:
        for row in table:
            try:
                yield convert(row)
            except BadRow as error:
                bad += error.rows
    except BadRow as error:  # of the table
        bad += error.rows
    if bad:
        # No BadRow: `convert` may read this table for its labels.
        raise ValueError(str(BadRow(*sorted(bad))))


def label_text(value: Any) -> str:
    """Returns a label as text; JSON values may be numbers or booleans."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def is_missing(value: Any) -> bool:
    """Whether a value is None, not a number, or pandas' value for None."""
    try:
        return value is None or bool(value != value)  # nan is not itself
    except TypeError:  # pandas.NA is neither equal nor unequal
        return True


def check_labels(labels: Iterable[str], where: str) -> None:
    """Refuses labels that are empty or have a line break.

    Files with a label on each line cannot hold them; `where` is for the error.
    """
    for label in labels:
        if not label.strip() or label.splitlines() != [label]:
            raise ValueError(
                f"{where}: the label {label!r} is empty or has a line break; "
                "rename it to one line, as labels.txt has it."
            )


def given_labels(labels: Iterable[Any]) -> tuple[str, ...]:
    """Returns the labels of --labels, checked."""
    labels = tuple(map(label_text, labels))
    check_labels(labels, "--labels")
    if len({*labels}) < len(labels):
        raise ValueError(
            f"--labels={','.join(labels):.60} has a label twice; omit one."
        )
    return labels


def sorted_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Sorts a file's labels: -1, 2, 10, a, b; warns of nearly equal ones."""

    def key(label):
        is_number = label.removeprefix("-").isdecimal()
        return (0, int(label), label) if is_number else (1, 0, label)

    found = sorted({*labels}, key=key)
    alike = {"".join(label.casefold().split()): label for label in found}
    if others := {*found} - {*alike.values()}:
        logging.warning(
            f"Labels that differ from {sorted(others)} in case or white space "
            "alone are other labels; correct the table if they are the same."
        )
    return tuple(found)


def describe_labels(labels: Sequence[str]) -> str:
    """Returns the labels, or the first ten, for an error message."""
    more = f", ... ({len(labels)} in all)" if len(labels) > 10 else ""
    return f"one of {', '.join(labels[:10])}{more}"


def read_cells(
    path: str, delimiter: str = "\t", quotechar: str | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a table: the first line's number from 1, the cells.

    The text is UTF-8; a byte-order mark and carriage returns are dropped.
    `quotechar` encloses cells that contain delimiters or line breaks; None = an
    ordinary character. An empty line is [], but those at the end of the file
    are ignored. ValueError: a quote is not closed.
    """
    lines = (f"{line}\n" for line in files.read_lines(path))
    # Long texts exceed the default, 131,072 characters. The limit is global to
    # the process.
    csv.field_size_limit(_MAX_CELL)
    marks = {"delimiter": delimiter, "quotechar": quotechar}
    quoting = csv.QUOTE_MINIMAL if quotechar else csv.QUOTE_NONE
    reader = csv.reader(lines, quoting=quoting, strict=True, **marks)
    start, held = 1, []
    try:
        for cells in reader:
            held.append((start, cells))
            if cells:
                yield from held
                held = []
            start = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, lines {start} to {reader.line_num}: {error}; expected "
            f"quotes ({quotechar}) to be closed, and quotes in cells doubled."
        ) from None


def read_table(
    path: str,
    *,
    header: bool = True,
    delimiter: str = "\t",
    quotechar: str | None = None,
    skip_broken: bool = False,
) -> Iterator[Row]:
    """Yields the rows of a table after the header; all have the same width.

    `skip_broken` skips rows of another width and empty lines, and logs their
    number; without it they raise BadRow after the last row. For the others see
    `read_cells`.
    """
    names, width, broken, bad = (), None, [], []
    rows = read_cells(path, delimiter, quotechar)
    for number, (line, cells) in enumerate(rows):
        if width is None and cells:
            width = len(cells)
            if header:
                names = tuple(cells)
                continue
        if len(cells) == width:
            yield Row(path, line, number, names, cells)
        elif skip_broken and width:
            broken.append(line)
        else:
            # Differs from the original: rows of another width are errors,
            # because a stray tab would turn a label into a text.
            mark = SEPARATORS.get(delimiter, repr(delimiter))
            message = (
                f"{path}, line {line}: {len(cells)} columns, expected "
                f"{width or 1} as in the first line; is the line empty, or a "
                f"{mark} in a text, or missing?"
            )
            bad.append((line, message))
    if bad:
        raise BadRow(*bad)
    if broken:
        logging.warning(
            "%s: %d rows without %d columns are left out; the first: line %d.",
            *(path, len(broken), width, broken[0]),
        )


def read_json_lines(
    path: str, required: Collection[Column] = ()
) -> Iterator[Row]:
    """Yields a row for each line, a JSON object whose keys are the columns.

    Raises BadRow after the last line for lines that are none, or lack one of
    the `required` columns.
    """
    bad = []
    for line, text in enumerate(files.read_lines(path), start=1):
        if not text.strip():
            continue
        try:
            fields = json.loads(text, object_pairs_hook=_once_each)
            if not isinstance(fields, dict):
                raise ValueError(f"a {type(fields).__name__}")
        except ValueError as error:
            message = (
                f"{path}, line {line}: no JSON object ({error}); expected one "
                'on each line, such as {"text": "...", "label": "..."}.'
            )
            bad.append((line, message))
            continue
        row = Row(path, line, line - 1, tuple(fields), tuple(fields.values()))
        if lacking := [x for x in required if not row.has(x)]:
            bad.append((line, row.lack(lacking[0])))
        else:
            yield row
    if bad:
        raise BadRow(*bad)


def _once_each(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Makes an object of names and values; refuses a name that is there twice.

    The json module takes the last value.
    """
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} is twice in an object")
    return fields
