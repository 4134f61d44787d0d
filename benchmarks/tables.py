"""The tables that all reports have."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from data.storage import files
from data.tables import tsv


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a Markdown table, its lines as one text."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| "
        + " | ".join(
            str(cell).replace("|", "\\|").replace("\n", " ") for cell in line
        )
        + " |"
        for line in lines
    )


def spread(values: Sequence[float]) -> str:
    """Returns mean and spread of values, one for each seed; "" = no value."""
    from studies.engine.report import Values, shown  # loads TensorFlow

    return shown(Values.of(values)) if values else ""


def write(
    folder: Path, name: str, rows: Sequence[Sequence[object]], text: str
) -> None:
    """Writes NAME.tsv with the rows, and NAME.md with the text."""
    files.write_text(str(folder / f"{name}.tsv"), tsv(rows))
    files.write_text(str(folder / f"{name}.md"), text + "\n")
