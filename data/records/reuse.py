"""Makes record files once for the same input."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from absl import logging

from data.storage import files, manifests
from data.storage.json_files import write_json
from data.text import vocabulary
from data.text.tokenization import FullTokenizer


@dataclasses.dataclass
class RowsReport:
    """Counts of a record file; some kinds of record add their own.

    `num_tokens` counts the tokens of all rows without padding, `num_places`
    with padding; `reused` says whether an earlier run wrote the file.
    """

    num_examples: int = 0
    num_tokens: int = 0
    num_places: int = 0
    reused: bool = False

    def counts(self) -> list[str]:
        """The counts as text for the log."""
        return [f"{self.num_examples:,} examples"]

    def __str__(self) -> str:
        parts = self.counts()
        if self.num_places:
            parts.append(f"padding {1 - self.num_tokens / self.num_places:.1%}")
        if self.reused:
            parts.append("written by an earlier run")
        return ", ".join(parts)


Report = TypeVar("Report", bound=RowsReport)


def make_once(
    path: str,
    facts: Mapping[str, Any],
    report_type: type[Report],
    write: Callable[[], tuple[Report, str]],
    check: Callable[[Mapping[str, Any]], None] | None = None,
) -> Report:
    """Writes a record file, unless an earlier run wrote the same one.

    `PATH.manifest.json` says what the records were made from. If this is
    unchanged and the file complete, the file is used again. `facts` are all
    that its bytes depend on, as JSON returns it. `write` returns the report and
    the file's SHA-256. `check` may refuse the facts before anything is written.
    """
    if check:
        check(facts)
    manifest = manifests.read(path + files.MANIFEST_SUFFIX)
    try:
        report, sha256 = report_type(**manifest["report"]), manifest["sha256"]
        is_same = manifest["made_from"] == facts
        report.reused = is_same and manifests.is_complete(path, sha256)
    except (KeyError, TypeError):
        report = None  # no manifest, or not written by `make_once`
    if not report or not report.reused:
        report, checksum = write()
        manifest = {
            "made_from": facts,
            "sha256": checksum,
            "report": dataclasses.asdict(report),
        }
        write_json(path + files.MANIFEST_SUFFIX, manifest)
    logging.info("%s: %s", path, report)
    return report


def made_from(path: str) -> dict[str, Any]:
    """Returns the facts with which `make_once` wrote a file; {} = unknown."""
    return manifests.read(path + files.MANIFEST_SUFFIX).get("made_from", {})


def num_examples(path: str) -> int:
    """Returns how many examples `make_once` wrote to a file; 0 = unknown."""
    manifest = manifests.read(path + files.MANIFEST_SUFFIX)
    return manifest.get("report", {}).get("num_examples", 0)


def tokenizer_facts(tokenizer: FullTokenizer) -> dict[str, Any]:
    """The `facts` of `make_once` that describe a tokenizer."""
    return {
        "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
        "never_split": list(tokenizer.never_split),
        "vocab_sha256": vocabulary.sha256(tokenizer.vocab),
    }
