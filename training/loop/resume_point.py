"""Where a run resumes, as the JSON file beside each of its checkpoints."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from data.storage import files

ENDING = ".resume.json"


class ResumePoint(NamedTuple):
    """The state of a run beside its weights and slots.

    Attributes:
      global_step: updates made.
      examples_seen: examples taken from the training input; None = unknown, as
        what follows, in a checkpoint of the original.
      seed: the run's; with the step it determines every random number.
      num_examples: in the training input, to detect another input.
      optimizer: its name, to detect another one, whose slots have the same
        names.
      train_seconds: duration of training so far, without interruptions.
      arithmetic: dtype of the last updates, such as `bfloat16`; "" = unknown.
      is_stripped: whether the slots were removed, so that training is over.
      made_from: what the training input was made from, as JSON holds it; {} =
        unknown.
      settings: of the training, see `TrainOptions.shaping`; {} = unknown.
    """

    global_step: int
    examples_seen: int | None = None
    seed: int | None = None
    num_examples: int | None = None
    optimizer: str = "adamw"
    train_seconds: float = 0.0
    arithmetic: str = ""
    is_stripped: bool = False
    made_from: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}


def _encode(record: Mapping[str, Any]) -> str:
    """A resume record as text, with a checksum of itself."""
    checksum = hashlib.sha256(json.dumps(record).encode()).hexdigest()
    return json.dumps({**record, "sha256": checksum}) + "\n"


def write(prefix: str, point: ResumePoint, index: str) -> None:
    """Writes the resume record of a checkpoint with this index."""
    record = point._asdict() | {"index_sha256": files.sha256(index)}
    files.write_text(prefix + ENDING, _encode(record))


def read(prefix: str, step: int) -> ResumePoint:
    """Reads the resume record of a step's checkpoint; refuses a damaged one."""
    path = prefix + ENDING
    if not files.exists(path):
        return ResumePoint(step)
    with files.open_read(path) as file:
        data = file.read()
    try:
        record = json.loads(data)
        # A single damaged byte cannot remove both names.
        is_signed = not {"sha256", "index_sha256"}.isdisjoint(record)
        record.pop("sha256", None)
    except (ValueError, TypeError, AttributeError):
        is_signed, record = True, {}
    if is_signed and data != _encode(record).encode():
        raise ValueError(f"{path} is damaged.")
    if is_signed and files.sha256(prefix + ".index") != record["index_sha256"]:
        raise ValueError(f"{prefix}.index is damaged: {path} has its checksum.")
    known = {n: record[n] for n in ResumePoint._fields if n in record}
    return ResumePoint(**known | {"global_step": step})
