"""Small tables: columns in the log, tab-separated files."""

from collections.abc import Sequence
from typing import Any

from data.storage import files


def aligned(rows: Sequence[Sequence[Any]]) -> str:
    """Rows of cells as lines; the first column is aligned to the left."""
    rows = [[text_of(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(
                zip(row, widths, strict=True)
            )
        ).rstrip()
        for row in rows
    )


def write_tsv(path: str, rows: Sequence[Sequence[Any]]) -> None:
    """Writes rows of cells as a tab-separated file, atomically."""
    lines = ["\t".join(map(text_of, row)) + "\n" for row in rows]
    files.write_text(path, "".join(lines))


# Tabs and line breaks of an id would break a table.
_TO_SPACES = str.maketrans("\t\n\r", "   ")


def text_of(cell: Any) -> str:
    """A cell on one line: floats with six digits, None as an empty one."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.6g}"
    return str(cell).translate(_TO_SPACES)
