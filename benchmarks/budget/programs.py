"""Runs a program of the project and keeps its log."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.programs import ROOT


def run(log: Path, *program: str, **flags: Any) -> None:
    """Runs a program; its output goes to a log.

    Args:
      log: its end is shown if the program fails.
      *program: script, from the root of the project, and first arguments.
      **flags: those that are None are left out.

    Raises:
      RuntimeError: it failed; with the end of its log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    arguments = [f"--{k}={v}" for k, v in flags.items() if v is not None]
    with log.open("a") as file:
        process = subprocess.run(
            [sys.executable, *program, *arguments],
            cwd=ROOT,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if process.returncode:
        end = log.read_text(errors="replace")[-2000:]
        raise RuntimeError(
            f"{program[0]} ended with {process.returncode}; {log} ends with\n"
            f"{end}"
        )
