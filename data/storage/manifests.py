"""Manifests: JSON files that say what other files were made from."""

import json
from collections.abc import Mapping
from typing import Any

from data.storage import files


def read(
    path: str, facts: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Reads the manifest of an earlier run.

    Args:
      path: path of the manifest.
      facts: expected `made_from`, all that the files depend on, as JSON
        returns it; None = accept any.

    Returns:
      The manifest; None if it is missing, is no JSON object or has other
      facts. The files that it describes are then to be made again.
    """
    if not files.exists(path):
        return None
    with files.open_read(path) as file:
        try:
            manifest = json.loads(file.read())
        except ValueError:
            return None
    if not isinstance(manifest, dict):
        return None
    if facts is not None and manifest.get("made_from") != facts:
        return None
    return manifest


def is_complete(path: str, sha256: str, num_bytes: int | None = None) -> bool:
    """Whether a file exists with this checksum, and this size if given."""
    return (
        files.exists(path)
        and (num_bytes is None or files.size(path) == num_bytes)
        and files.sha256(path) == sha256
    )
