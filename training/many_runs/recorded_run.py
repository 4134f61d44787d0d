"""Runs once in a folder, and records the result with what it was made from.

The same command again reads the result of a finished run instead of repeating
it. A run that was made with different flags or data is refused.
"""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from data.storage import locks, manifests
from data.storage.json_files import write_json

_BEFORE = "seconds_before"  # seconds of a run that was stopped


class RecordedRun:
    """One run in its own folder, whose result is recorded in a JSON file.

    `name` is the file's, `made_from` all that the result depends on, as values
    that JSON can hold. Raises ValueError if the folder holds a run with
    different flags or data, or the file is damaged.
    """

    def __init__(self, folder: str, name: str, made_from: Mapping[str, Any]):
        self._folder = folder
        self._path = os.path.join(folder, name)
        self._record = manifests.require_same(
            self._path,
            made_from,
            "give another --output_dir, or remove that folder to repeat it",
        ) or {"made_from": made_from}

    @property
    def result(self) -> dict[str, Any] | None:
        """What `run` returned, here or in an earlier process; None = not run.

        `seconds` is the duration without pauses and killed processes.
        """
        if "seconds" not in self._record:
            return None
        return {k: v for k, v in self._record.items() if k != "made_from"}

    def run(self, function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Runs a function under the folder's lock and records what it returns.

        The function resumes a run that was interrupted. Returns what it
        returned, and `seconds`. Raises OSError if another process runs there.
        """
        with locks.sole_use(self._folder):
            began = time.monotonic() - self._record.pop(_BEFORE, 0.0)
            write_json(self._path, self._record)
            duration = _BEFORE
            try:
                self._record |= function()
                duration = "seconds"
            finally:  # also if it is stopped
                self._record[duration] = round(time.monotonic() - began, 1)
                write_json(self._path, self._record)
        return self.result
