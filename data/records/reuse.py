"""Record files that are made once for the same input."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from absl import logging

from data.storage import files
from data.text.tokenization import FullTokenizer

# A dataclass of figures with a field `reused`.
Report = TypeVar("Report")


def make_once(
    path: str,
    facts: Mapping[str, Any],
    report_type: type[Report],
    write: Callable[[], tuple[Report, str]],
) -> Report:
    """Writes a record file, unless an earlier run has written just this one.

    What the records were made from stands beside them, in
    `PATH.manifest.json`. If all of it is the same, and the file whole, it is
    used again.

    Args:
      path: the record file.
      facts: all that its bytes depend on, as JSON has it.
      report_type: of the report.
      write: writes the file; returns the report and the file's SHA-256.

    Returns:
      What is in the file; `reused` says whether it was there.

    Raises:
      OSError: the file cannot be written.
    """
    manifest_path = path + files.MANIFEST_SUFFIX
    report = _written_before(path, manifest_path, facts, report_type)
    if report is None:
        report, checksum = write()
        manifest = {
            "made_from": facts,
            "sha256": checksum,
            "report": dataclasses.asdict(report),
        }
        files.write_text(manifest_path, json.dumps(manifest, indent=1) + "\n")
    logging.info("%s: %s", path, report)
    return report


def tokenizer_facts(tokenizer: FullTokenizer) -> dict[str, Any]:
    """What wordpieces depend on, for `make_once`."""
    vocab = json.dumps(list(tokenizer.vocab.items())).encode()
    return {
        "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
        "vocab_sha256": hashlib.sha256(vocab).hexdigest(),
    }


def _written_before(
    path: str, manifest_path: str, facts: Mapping[str, Any], report_type: type
) -> Any:
    """The report of an earlier run that made the same file, if it is whole."""
    if not (files.exists(path) and files.exists(manifest_path)):
        return None
    with files.open_read(manifest_path) as file:
        try:
            manifest = json.loads(file.read())
            if manifest["made_from"] != facts:
                return None
            report = report_type(**manifest["report"])
            checksum = manifest["sha256"]
        except (ValueError, KeyError, TypeError):
            return None  # somebody else's file: it will be written over
    if files.sha256(path) != checksum:
        return None
    return dataclasses.replace(report, reused=True)
