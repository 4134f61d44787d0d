"""Small JSON files of a run: what it was made from, what it has found."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from data.storage import files


def read_json(
    path: str, names: Sequence[str] = (), remedy: str = "remove it"
) -> dict[str, Any]:
    """Reads an object that a run has written.

    Args:
      path: of the file.
      names: members that it must have.
      remedy: what the user may do if it is damaged.

    Returns:
      The object.

    Raises:
      OSError: it cannot be read.
      ValueError: it is no JSON object, or lacks a member.
    """
    with files.open_read(path) as file:
        try:
            values = json.loads(file.read())
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}; {remedy}.") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} is damaged: no JSON object; {remedy}.")
    missing = [name for name in names if name not in values]
    if missing:
        raise ValueError(
            f"{path} is damaged: no {', '.join(missing)}; {remedy}."
        )
    return values


def write_json(path: str, values: Mapping[str, Any]) -> None:
    """Writes an object, readable, as a file that appears whole."""
    files.write_text(path, json.dumps(values, indent=1) + "\n")
