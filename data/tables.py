"""Tables of text: aligned for the log, or as tab-separated files."""

from collections.abc import Sequence
from typing import Any

# Tabs and line breaks would break a table; they become spaces.
_TO_SPACES = str.maketrans("\t\n\r", "   ")


def text_of(cell: Any) -> str:
    """Returns a cell as one line: floats with six digits, None as ""."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.6g}"
    return str(cell).translate(_TO_SPACES)


def aligned(rows: Sequence[Sequence[Any]]) -> str:
    """Returns rows as lines of a log: the first column left, others right."""
    rows = [[text_of(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        cells += map(str.rjust, others, widths[1:])
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def tsv(rows: Sequence[Sequence[Any]]) -> str:
    """Returns rows of cells as the text of a tab-separated file."""
    return "".join("\t".join(map(text_of, row)) + "\n" for row in rows)
