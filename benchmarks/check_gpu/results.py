"""What a part of check-gpu is asked, and what it found."""

import dataclasses
from pathlib import Path
from typing import Any

from benchmarks.programs import ROOT
from data.storage.json_files import write_json
from training.config.run_options import DeviceOptions

GOLDENS = ROOT / "tests/goldens"
MIRRORED = DeviceOptions(distribution_strategy="mirrored")


@dataclasses.dataclass(frozen=True)
class Request:
    """The conditions of a part."""

    small: bool = False  # tiny models, which only show that everything works
    gpus: tuple[str, ...] = ()  # names; () = TensorFlow computes on a CPU
    num_devices: int = 1  # GPUs, or logical CPUs
    compiles: bool = True  # whether XLA can compile for the devices
    memory_gb: float = 0.0  # of the first GPU; 0 = not known
    precision: str = "float32"  # 16 bits if the GPUs multiply them
    deterministic: bool = False  # whether `repeats` has op determinism
    model: str = ""  # of `speed`: see `cases.model_of`
    length: int = 0  # likewise, S
    xla: bool = False  # likewise: compiles the gradient; False = `--fuse`
    seconds: float = 600.0  # no further batch size is begun after so long
    result: Path | None = None  # file for the results, also of a part's half


class Found:
    """Collects the results of a part."""

    def __init__(self):
        self.checks: list[dict[str, Any]] = []  # `name`, `passed`, `text`
        self.figures: dict[str, Any] = {}

    def save(self, path: Path | None) -> None:
        """Writes what was found until now as JSON, if there is a path."""
        if path:
            write_json(str(path), vars(self))

    def check(self, name: str, passed: bool, text: str) -> None:
        """Adds a check; `text` says what was found and what was wanted."""
        self.checks.append({"name": name, "passed": bool(passed), "text": text})

    def at_most(self, name: str, value: float, bound: float) -> None:
        """Adds a check that a difference is within a bound."""
        passed = value <= bound  # nan is not
        self.check(name, passed, f"{value:.2g}, at most {bound:.2g}")


def one_device() -> Found:
    """What a part that needs several devices finds where there is one."""
    found = Found()
    found.figures["left_out"] = "there is 1 device"
    return found
