"""Files of a user's table: their names, formats, separators and columns."""

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence

from absl import logging

from data.storage import files
from data.tasks import rows
from data.tasks.rows import SEPARATORS, Column, Row

# Number of first rows that tell a csv file's separator.
_SAMPLE = 100


@dataclasses.dataclass
class TableFiles:
    """The files of a table's sets, and how they are read.

    `names` are set -> name in the folder; "" = the first usual name that
    exists. `suffixes` are the endings of usual names; the first one is also the
    format of files with other endings. `separator` is --separator for csv and
    tsv files; "" = tab in tsv, detected in csv. Every set has `columns`; a test
    set may lack `label`, and no set has it if it is None. For `quoted` see
    `UserTable`. With `drop_missing`, rows with an empty cell are left out,
    unless it is an `id_column`'s. `of_train` is the separator of the train
    set's csv file, "" = not read yet. `data_dir` "" = all files are named.
    """

    data_dir: str
    names: Mapping[str, str]
    suffixes: tuple[str, ...]
    columns: Sequence[Column]
    label: Column | None = None
    id_column: Column | None = None
    quoted: bool | None = None
    separator: str = ""
    drop_missing: bool = False
    of_train: str = ""
    # Files whose rows without a cell were logged: they are read several times.
    _said: set[str] = dataclasses.field(default_factory=set)

    def __post_init__(self):
        names = {name: mark for mark, name in SEPARATORS.items()}
        mark = names.get(self.separator, self.separator)
        if len(mark) > 1 or mark in ('"', "\r", "\n"):
            raise ValueError(
                f"--separator={mark!r}; it must be {', '.join(names)} or "
                "another single character, but no quote and no line break."
            )
        self.separator = mark
        given = filter(None, (*self.columns, self.label))
        names = [x.name for x in given if x.flag != "choice_columns"]
        if len({*names}) < len(names):
            raise ValueError(
                f"the columns {', '.join(names)}, of texts and label, name one "
                "twice; give each once."
            )

    def read(self, set_name: str) -> Iterator[Row]:
        """Yields the rows of a set after checking that they have the columns.

        Raises ValueError if a column is missing, is there twice, or is given by
        its number in a file that has only names; BadRow after the last row for
        rows that cannot be read.
        """
        path, columns = self.path(set_name), self._columns_of(set_name)
        is_json = self._format(path) == ".jsonl"
        if is_json:  # each row has its own names
            columns = [column._replace(number=None) for column in columns]
        # The id column, if there is one, is the last.
        needed = columns[: len(columns) - bool(self.id_column)]
        if is_json:
            required = columns[len(needed) :] if self.drop_missing else columns
            table = rows.read_json_lines(path, required)
        else:
            table = rows.read_table(
                path,
                header=_has_header([*columns, *self._columns_of("train")]),
                delimiter=self._separator_of(set_name, path),
                quotechar=self._quotechar(path),
            )
        left_out = []
        for number, row in enumerate(table):
            if not (is_json or number):
                _check_columns(row, columns)
            if self.drop_missing and any(map(row.is_empty, needed)):
                left_out.append(row.line)
            else:
                yield row
        if left_out and path not in self._said:
            self._said.add(path)
            logging.warning(
                "%s: --drop_missing leaves out %d rows, the first is line %d.",
                *(path, len(left_out), left_out[0]),
            )

    def path(self, set_name: str) -> str:
        """The file of a set; FileNotFoundError if none has a usual name."""
        given, usual = self.names[set_name], self._usual_names(set_name)
        return find_file(self.data_dir, set_name, given, usual)

    def _usual_names(self, set_name: str) -> list[str]:
        return [set_name + suffix for suffix in self.suffixes]

    def beside_train(self, set_name: str) -> str | None:
        """The file of a set, if named or in the folder of the train set."""
        if self.names[set_name] or not self.data_dir:
            return self.names[set_name]
        folder = os.path.join(self.data_dir, "")
        train = os.path.join(folder, self.names["train"])
        is_beside = os.path.dirname(train) == os.path.dirname(folder)
        usual = self._usual_names(set_name)
        return files.first_of(usual, folder) if is_beside else None

    def _columns_of(self, set_name: str) -> list[Column]:
        label = self.label if set_name != "test" else None
        return [*self.columns, *filter(None, [label, self.id_column])]

    def _format(self, path: str) -> str:
        suffix = os.path.splitext(path)[1].lower()
        return suffix if suffix in self.suffixes else self.suffixes[0]

    def _quotechar(self, path: str) -> str | None:
        is_csv = self._format(path) == ".csv"
        return '"' if (is_csv if self.quoted is None else self.quoted) else None

    def _separator_of(self, set_name: str, path: str) -> str:
        """The given separator; else a tab, or for csv files the train set's."""
        if self.separator or self._format(path) != ".csv":
            return self.separator or "\t"
        if set_name == "train":
            self.of_train = self._find_separator(set_name, path, "")
            return self.of_train
        if not self.of_train:
            with contextlib.suppress(FileNotFoundError):
                self._separator_of("train", self.path("train"))
        return self._find_separator(set_name, path, self.of_train)

    def _find_separator(self, set_name: str, path: str, of_train: str) -> str:
        """Detects the separator of a csv file from its first rows.

        The candidates are the `SEPARATORS` that give the first row all columns,
        or all of them if none does. It is the train set's (`of_train`, "" =
        unknown) if that is a candidate; otherwise the one that gives all rows
        the same width above 1; otherwise the first, the comma. Raises
        ValueError if several candidates give all rows such a width, or the
        train set's gives one column and another one several.
        """
        columns, quote = self._columns_of(set_name), self._quotechar(path)
        fitting, widths = {}, {}
        for mark in SEPARATORS:
            cells, widths[mark] = _shape(path, mark, quote)
            row = Row(path, 1, 0, cells if _has_header(columns) else (), cells)
            if all(map(row.has, columns)) and not _same_place(row, columns):
                fitting[mark] = widths[mark]
        widths = fitting or widths
        names = [SEPARATORS[mark] for mark in widths if widths[mark] > 1]
        if of_train in fitting:
            if widths[of_train] == 1 and names:
                usual = SEPARATORS[of_train]
                raise ValueError(
                    f"{path}: {usual}s separate the columns of the train set. "
                    "Split by them, this file has one column, but several by "
                    f"{'s and '.join(names)}s. Use the same separator in both "
                    f"files; or, if one column is right, --separator={usual}."
                )
            return of_train
        if len(names) > 1:
            raise ValueError(
                f"{path}: {'s and '.join(names)}s each give every row as many "
                f"cells. Say which it is, for example --separator={names[-1]}."
            )
        return max(widths, key=widths.get)


def find_file(
    data_dir: str, set_name: str, given: str, usual: Sequence[str]
) -> str:
    """Returns the given file of a set, or the first one of the usual names.

    Raises FileNotFoundError if there is none.
    """
    if given:
        # `join` recognises absolute paths, but not `gs://`.
        return given if "://" in given else os.path.join(data_dir, given)
    if not data_dir:
        raise FileNotFoundError(
            f"Neither --{set_name}_file nor --data_dir is given; give one."
        )
    if found := files.first_of(usual, data_dir):
        return found
    raise FileNotFoundError(
        f"{data_dir} has none of {', '.join(usual)}; give its name with "
        f"--{set_name}_file."
    )


def _shape(path: str, mark: str, quote: str | None) -> tuple[list[str], int]:
    """The first row, and the width of the first rows; 0 = it varies."""
    first, widths = [], set()
    try:
        cells = rows.read_cells(path, mark, quote)
        for _, row in itertools.islice(cells, _SAMPLE):
            first = first or row
            widths.add(len(row))
    except ValueError:  # a quote in the middle of a cell
        widths.add(0)
    return first, widths.pop() if len(widths) == 1 else 0


def _same_place(row: Row, columns: Sequence[Column]) -> list[Column]:
    """The columns that name the same cell of a row, such as 0 and -1 of one."""
    places: dict[int, Column] = {}
    for column in columns:
        other = places.setdefault(row.place(column), column)
        if other.name != column.name:
            return [other, column]
    return []


def _has_header(columns: Sequence[Column]) -> bool:
    """Whether a table has a header: if not all columns are numbers."""
    return any(column.number is None for column in columns)


def _check_columns(row: Row, columns: Sequence[Column]) -> None:
    """Refuses columns that a table lacks, or that are not told apart."""
    if same := _same_place(row, columns):
        row.fail(
            f"the columns {same[0]} and {same[1]} are the same one of "
            f"{len(row.cells)} columns. Give other numbers, or --separator."
        )
    for column in columns:
        if row.names.count(column.name) > 1:
            row.fail(
                f"there are several columns {column}; it has "
                f"{', '.join(row.names)}. Rename all but one."
            )
