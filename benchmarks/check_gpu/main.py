"""Checks that everything works on this machine's NVIDIA GPUs, and how fast.

Each part is a process of its own: one that fails does not lose the others. The
results are written after each part, also when ^C ends the program. Without a
GPU it ends after the first part. Values are compared with those of
tests/goldens, and speed is measured on random ids.
"""

import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import programs
from benchmarks.check_gpu import page
from benchmarks.programs import ROOT
from data.settings import Settings, setting, switch
from data.storage import files
from data.storage.json_files import read_json, write_json
from training import program
from training.config import flags

PASSED, FAILED, NOT_RUN = "passed", "FAILED", "not run"
_LATE, _STOPPED = "did not end", "interrupted with ^C"
_NOISE = re.compile(r"[IW]\d{4} |WARNING: All log messages before absl")
# Part -> (function of part.py, its options).
_MACHINE = {"machine": ("machine", {})}
_VALUES = {
    "goldens": ("goldens", {}),
    "plain = fused = XLA": ("forms", {}),
    "repeats": ("repeats", {}),
    "repeats with --deterministic": ("repeats", {"deterministic": True}),
    "1 = N devices": ("devices", {}),
    "SIGTERM": ("sigterm", {}),
}


def make_parts(small: bool) -> dict[str, tuple[str, dict]]:
    """Returns all parts in their order: name -> function, options."""
    models = ["tiny"] if small else ["large", "base"]
    lengths = [16] if small else [512, 128]
    speeds = {}
    for model, length, form in itertools.product(
        models, lengths, ("fused", "XLA")
    ):
        sizes = {"model": model, "length": length, "xla": form == "XLA"}
        speeds[f"speed, {model}, {length}, {form}"] = ("speed", sizes)
    longest = dict(list(speeds.items())[:2])
    last = {"model": models[-1], "length": lengths[-1]}
    # Time may end before all parts: what is asked for most comes first.
    return {
        **_MACHINE,
        **longest,
        **_VALUES,
        **speeds,
        "placement": ("placement", last),
        "scaling": ("scaling", last),
    }


def run_part(function: str, options: dict, timeout: float) -> dict:
    """Runs a part to its end, and no longer than `timeout` seconds.

    Returns `status`, `checks`, `figures`, `seconds` and `error`.
    """
    began = time.monotonic()
    result = _nothing() | {"status": FAILED}
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder, "result.json"), Path(folder, "log")
        command = [sys.executable, "-m", "benchmarks.check_gpu.part"]
        command += [function, json.dumps(options), str(path)]
        with log.open("w", encoding="utf-8") as file:
            try:
                code = subprocess.run(
                    command, cwd=ROOT, stderr=file, timeout=timeout
                ).returncode
                result["error"] = f"exit code {code}" if code else ""
            except subprocess.TimeoutExpired:
                result["error"] = f"{_LATE} within {timeout:.0f} s"
        if result["error"]:
            lines = log.read_text("utf-8", "replace").strip().splitlines()
            end = [line for line in lines if not _NOISE.match(line)][-12:]
            result["error"] = "\n".join([result["error"], *end])
        if path.exists():
            result |= read_json(str(path))
        passed = all(check["passed"] for check in result["checks"])
        if passed and not result["error"]:
            result["status"] = PASSED
    return result | {"seconds": time.monotonic() - began}


def _nothing():
    """The result of a part that was not run."""
    return {
        "status": NOT_RUN,
        "checks": [],
        "figures": {},
        "error": "",
        "seconds": 0.0,
    }


def write(folder: Path, results: dict[str, dict]) -> str:
    """Writes check_gpu.json and check_gpu.md; returns the page."""
    text = page.make(results)
    content = {"date": time.strftime("%Y-%m-%d"), "parts": results}
    write_json(str(folder / "check_gpu.json"), content)
    files.write_text(str(folder / "check_gpu.md"), text)
    return text


def check(
    folder: Path, small: bool, minutes: float, only: Sequence[str] = ()
) -> dict:
    """Runs the machine and the parts whose names begin as asked; () = all.

    Returns the results by part, also after ^C.
    """
    deadline = time.monotonic() + 60 * minutes
    parts = make_parts(small)
    results = {name: _nothing() for name in parts}
    names = programs.chosen((*only, *_MACHINE) if only else (), parts)
    write(folder, results)  # says early if it cannot be written
    for number, name in enumerate(names):
        function, options = parts[name]
        left = deadline - time.monotonic()
        if left <= 0:
            results[name]["error"] = f"--minutes={minutes:g} were over"
            write(folder, results)
            continue
        print(f"[{number + 1}/{len(names)}] {name} ...", flush=True)
        # One that hangs must not take the time of all others.
        is_value = name in _MACHINE | _VALUES
        timeout = min(left, 20 * minutes) if is_value else left
        options = options | {
            "small": small,
            "compiles": results["machine"]["figures"].get("compiles"),
            "seconds": left / (len(names) - number),
        }
        try:
            results[name] = run_part(function, options, timeout)
            if left <= timeout and results[name]["error"].startswith(_LATE):
                results[name]["status"] = NOT_RUN
        except KeyboardInterrupt:
            results[name]["error"] = _STOPPED
            break
        finally:
            write(folder, results)
        print(f"    {results[name]['status']}", flush=True)
        if name in _MACHINE and results[name]["status"] == FAILED:
            break  # no GPU: the figures of a CPU would mean nothing
    return results


class CheckOptions(Settings):
    """How it is checked."""

    small: bool = switch("Tiny models: figures mean nothing.")
    minutes: float = setting(9.5, "Time for all parts.", least=0)
    output_dir: str = setting(str(ROOT / "build"), "For the results.")


def main():
    """Runs all parts; exits with 1 if one failed, with 130 after ^C."""
    options, only = flags.read(CheckOptions), flags.value("only")
    folder = Path(options.output_dir).resolve()
    files.check_writable(str(folder))
    results = check(folder, options.small, options.minutes, only)
    print(f"\n{write(folder, results)}")
    print(f"In {folder}: check_gpu.json, check_gpu.md")
    if any(result["error"] == _STOPPED for result in results.values()):
        sys.exit(130)
    failed = [name for name, x in results.items() if x["status"] == FAILED]
    if failed:
        sys.exit(f"error: {len(failed)} parts failed: {'; '.join(failed)}.")


if __name__ == "__main__":
    flags.define(CheckOptions)
    programs.define_only(make_parts(small=False))
    program.run(main)
