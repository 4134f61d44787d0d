"""Makes record files once for the same input."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from absl import logging

from data.storage import files, manifests
from data.storage.json_files import write_json
from data.text.tokenization import FullTokenizer

# A dataclass of counts with a field `reused`.
Report = TypeVar("Report")


def make_once(
    path: str,
    facts: Mapping[str, Any],
    report_type: type[Report],
    write: Callable[[], tuple[Report, str]],
) -> Report:
    """Writes a record file, unless an earlier run wrote the same one.

    `PATH.manifest.json` says what the records were made from. If this is
    unchanged and the file complete, the file is used again.

    Args:
      path: the record file.
      facts: all that its bytes depend on, as JSON returns it.
      report_type: class of the report.
      write: writes the file; returns the report and the file's SHA-256.

    Returns:
      The counts of the file; `reused` says whether it already existed.

    Raises:
      OSError: the file cannot be written.
    """
    report = _written_before(path, facts, report_type)
    if report is None:
        report, checksum = write()
        manifest = {
            "made_from": facts,
            "sha256": checksum,
            "report": dataclasses.asdict(report),
        }
        write_json(path + files.MANIFEST_SUFFIX, manifest)
    logging.info("%s: %s", path, report)
    return report


def tokenizer_facts(tokenizer: FullTokenizer) -> dict[str, Any]:
    """The `facts` of `make_once` that describe a tokenizer."""
    vocab = json.dumps(list(tokenizer.vocab.items())).encode()
    return {
        "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
        "vocab_sha256": hashlib.sha256(vocab).hexdigest(),
    }


def _written_before(
    path: str, facts: Mapping[str, Any], report_type: type[Report]
) -> Report | None:
    """The report of an earlier run, if its file is the same and complete."""
    manifest = manifests.read(path + files.MANIFEST_SUFFIX, facts)
    if not manifest:
        return None
    try:
        report = report_type(**manifest["report"])
        checksum = manifest["sha256"]
    except (KeyError, TypeError):
        return None  # not written by `make_once`: it will be overwritten
    if not manifests.is_complete(path, checksum):
        return None
    return dataclasses.replace(report, reused=True)
