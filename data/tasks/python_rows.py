"""Tables that are Python objects, as files of JSON lines for the task `tsv`."""

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from data.storage import files
from data.tasks.rows import BadRow, is_missing, label_text


def rows_of(
    data: Any,
    columns: Sequence[str],
    *,
    may_lack: Collection[str] = (),
    drops: bool = False,
    name: str = "data",
) -> list[dict[str, Any]]:
    """Reads the columns of a table as a dict of JSON's values for each row.

    A table is a pandas DataFrame or another object with `columns` and
    `data[column]`, a dict of columns, a list of dicts, or a list of tuples in
    the order of `columns`. A table or row may be without the columns of
    `may_lack`, such as the label of a test set; they are then left out. With
    `drops`, so is any missing value, because the reader of the file drops the
    row. A float that is a whole number becomes an int: pandas makes floats of
    integers if one of a column is missing. Raises ValueError, with `name`, if
    the table is none of these, is empty, or lacks a column or values, all of
    which it names.
    """
    rows, bad = [], []
    needed = {*columns} - {*may_lack}
    for number, (names, row) in enumerate(_rows(data, columns, needed, name)):
        rows.append({})
        for column in columns:
            value = _plain(row.get(column))
            items = value if isinstance(value, list) else [value]
            if not any(map(is_missing, items)):
                rows[-1][column] = value
            elif column in needed and not drops:
                message = (
                    f"{name}, row {number}: column {column!r} is {value}, "
                    f"expected a value; {_told(names)}, or leave such rows out "
                    "by drop_missing=True."
                )
                bad.append((number, message))
                break
    if bad:
        raise BadRow(*bad)
    if not rows:
        raise ValueError(f"{name} has no row; expected one at least.")
    return rows


def write_rows(path: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes the rows that `rows_of` returned as one JSON object a line."""
    try:
        lines = [json.dumps(row) + "\n" for row in rows]
    except TypeError as error:
        raise ValueError(
            f"{path}: {error}; expected strings, numbers, or lists of them."
        ) from None
    files.write_text(path, "".join(lines))


def label_of(value: Any) -> str:
    """Returns a label's text for a string, number or boolean, also of NumPy."""
    return label_text(_plain(value))


def _rows(
    data: Any, columns: Sequence[str], needed: set[str], name: str
) -> Iterator[tuple[Iterable[Any], Mapping[str, Any]]]:
    """Yields the names of all columns, and column -> value, for each row."""
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        names = list(getattr(data, "columns", data))
        kept = [column for column in names if column in columns]
        for column in columns if names else ():
            if column in needed and column not in kept:
                raise ValueError(
                    f"{name} has no column {column!r}; {_told(names)}"
                )
        if len(kept) > len(set(kept)):
            raise ValueError(
                f"{name} has a column twice: {', '.join(kept)}; rename one."
            )
        lists = [list(data[column]) for column in kept]
        if len(set(map(len, lists))) > 1:
            raise ValueError(
                f"{name}: the columns {', '.join(kept)} differ in length: "
                f"{list(map(len, lists))}; expected a value in each row."
            )
        for values in zip(*lists, strict=True):
            yield names, dict(zip(kept, values, strict=True))
        return
    if isinstance(data, str | bytes) or not isinstance(data, Sequence):
        raise ValueError(
            f"{name} is a {type(data).__name__}, expected a pandas DataFrame, "
            "a dict of columns, a list of rows, or the path of a file."
        )
    for number, row in enumerate(data):
        if isinstance(row, Mapping):
            yield row, row
        elif isinstance(row, tuple | list) and len(row) <= len(columns):
            yield columns, dict(zip(columns, row, strict=False))
        else:
            raise ValueError(
                f"{name}, row {number} is {row!r:.60}, expected a tuple or "
                f"dict of {', '.join(columns)}."
            )


def _told(names: Iterable[Any]) -> str:
    """Says which columns a table has, and how to name them."""
    names = ", ".join(map(str, names))
    return (
        f"the columns are {names}. Name them by text=... and label=..., those "
        "of vectors by text_columns=... and label_column=..."
    )


def _plain(value: Any) -> Any:
    """Converts NumPy's values to Python's, whole numbers to int."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else value


def is_path(table: Any) -> bool:
    """Whether a table is the path of a file."""
    return isinstance(table, str | os.PathLike)


@contextlib.contextmanager
def put_back_if_refused(paths: set[str], has_run: bool) -> Iterator[None]:
    """Restores a folder's tables if the block raises ValueError or OSError.

    With `has_run`, after any exception. New tables may hold rows that the model
    was trained on, so they are removed, but not those of a folder's first call.
    """
    before = {
        path: "".join(f"{line}\n" for line in files.read_lines(path))
        for path in filter(files.exists, paths)
    }
    try:
        yield
    except BaseException as error:
        if not (has_run or isinstance(error, ValueError | OSError)):
            raise
        for path, text in before.items():
            files.write_text(path, text)
        for path in paths - before.keys() if before or has_run else ():
            files.remove(path)
        raise
