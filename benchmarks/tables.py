"""Tables of Markdown, which all reports have."""

from collections.abc import Iterable, Sequence


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
