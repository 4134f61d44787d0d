"""Small JSON files of a run."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from data.storage import files


def read_json(
    path: str, names: Sequence[str] = (), remedy: str = "remove it"
) -> dict[str, Any]:
    """Reads a JSON object that a run has written.

    Args:
      path: path of the file.
      names: members that the object must have.
      remedy: what the user can do if the file is damaged, for the error.

    Raises:
      OSError: the file cannot be read.
      ValueError: it is not a JSON object, or lacks a member.
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
    """Writes a JSON object, indented; see `files.whole_files`."""
    files.write_text(path, json.dumps(values, indent=1) + "\n")
