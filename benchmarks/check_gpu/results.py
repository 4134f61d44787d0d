"""What a part of check-gpu is asked, and what it found."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from benchmarks.programs import ROOT
from data.storage import files

GOLDENS = ROOT / "tests/goldens"


@dataclasses.dataclass(frozen=True)
class Request:
    """The conditions of a part.

    Attributes:
      small: tiny models, which only show that everything works.
      gpus: names of the GPUs that TensorFlow uses; () = it computes on a CPU.
      num_devices: GPUs, or logical CPUs.
      compiles: whether XLA can compile for the devices.
      memory_gb: of the first GPU; 0 = not known.
      precision: 16 bits if the GPUs multiply them, else float32.
      deterministic: of `equality.repeats`: with TensorFlow's op determinism.
      model: of `speed.speed`: see `cases.model_of`.
      length: likewise, S.
      xla: likewise, whether to compile the gradient; False = `--fuse`.
      seconds: no further batch size is begun after so long.
      result: file for the results, also of a part that is broken off.
    """

    small: bool = False
    gpus: tuple[str, ...] = ()
    num_devices: int = 1
    compiles: bool = True
    memory_gb: float = 0.0
    precision: str = "float32"
    deterministic: bool = False
    model: str = ""
    length: int = 0
    xla: bool = False
    seconds: float = 600.0
    result: Path | None = None


class Found:
    """Collects the results of a part.

    Attributes:
      checks: of each, `name`, `passed` and `text`.
      figures: whatever JSON can hold.
    """

    def __init__(self):
        self.checks: list[dict[str, Any]] = []
        self.figures: dict[str, Any] = {}

    def save(self, path: Path | None) -> None:
        """Writes what was found until now as JSON, if there is a path."""
        if path:
            files.write_text(str(path), json.dumps(vars(self)))

    def check(self, name: str, passed: bool, text: str) -> None:
        """Adds a check; `text` says what was found and what was wanted."""
        self.checks.append({"name": name, "passed": bool(passed), "text": text})

    def at_most(self, name: str, value: float, bound: float) -> None:
        """Adds a check that a difference is within a bound."""
        passed = value <= bound  # nan is not
        self.check(name, passed, f"{value:.2g}, at most {bound:.2g}")
