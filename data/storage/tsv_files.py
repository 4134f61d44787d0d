"""Tables as tab-separated files."""

from collections.abc import Sequence
from typing import Any

from data import tables
from data.storage import files


def write_tsv(path: str, rows: Sequence[Sequence[Any]]) -> None:
    """Writes rows of cells as a tab-separated file, atomically."""
    lines = ["\t".join(map(tables.text_of, row)) + "\n" for row in rows]
    files.write_text(path, "".join(lines))
