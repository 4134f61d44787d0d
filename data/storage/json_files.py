"""Small JSON files of a run."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from data.storage import files


def read_json(
    path: str, names: Sequence[str] = (), remedy: str = "remove it"
) -> dict[str, Any]:
    """Reads a JSON object that a run has written.

    Raises ValueError, with the `remedy`, if the file is not a JSON object or
    lacks one of `names`.
    """
    return require_names(_read(path, remedy), path, names, remedy)


def find_json(
    path: str, names: Sequence[str] = (), remedy: str = "remove it"
) -> dict[str, Any]:
    """Reads a file as `read_json` does; {} if it is missing."""
    return read_json(path, names, remedy) if files.exists(path) else {}


def read_json_list(
    path: str, names: Sequence[str], remedy: str
) -> list[dict[str, Any]]:
    """Reads a JSON list of objects, each with `names`; see `read_json`."""
    values = _read(path, remedy)
    if not isinstance(values, list):
        raise ValueError(f"{path} is damaged: no JSON list; {remedy}.")
    return [require_names(value, path, names, remedy) for value in values]


@contextlib.contextmanager
def open_json_lines(path: str) -> Iterator[Callable[[Any], None]]:
    """Opens a file; yields a function that writes a value on a line."""
    with files.open_whole(path) as file:
        yield lambda value: file.write((json.dumps(value) + "\n").encode())


def _read(path: str, remedy: str) -> Any:
    with files.open_read(path) as file:
        try:
            return json.loads(file.read())
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}; {remedy}.") from None


def require_names(
    values: Any, path: str, names: Sequence[str], remedy: str
) -> dict[str, Any]:
    """Returns a JSON object; refuses what is none, or lacks one of `names`."""
    if not isinstance(values, dict):
        raise ValueError(f"{path} is damaged: no JSON object; {remedy}.")
    if missing := ", ".join(name for name in names if name not in values):
        raise ValueError(f"{path} is damaged: no {missing}; {remedy}.")
    return values


def write_json(path: str, values: Mapping[str, Any] | Sequence[Any]) -> None:
    """Writes a JSON object or list, indented; see `files.whole_files`."""
    files.write_text(path, json.dumps(values, indent=1) + "\n")
