"""Small tables: columns in the log, tab-separated files."""

from collections.abc import Sequence
from typing import Any

from data.storage import files
from data.tables import aligned as aligned
from data.tables import text_of as text_of


def write_tsv(path: str, rows: Sequence[Sequence[Any]]) -> None:
    """Writes rows of cells as a tab-separated file, atomically."""
    lines = ["\t".join(map(text_of, row)) + "\n" for row in rows]
    files.write_text(path, "".join(lines))
