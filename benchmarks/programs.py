"""Runs the project's programs and measures time and memory from outside."""

import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from absl import app, logging

from training.many_runs.recorded_run import RecordedRun

ROOT = Path(__file__).resolve().parent.parent
_SAMPLE_S = 0.1  # between two looks at the memory


def require_known(flag, asked, known):
    """Raises ValueError if a flag names what is not known."""
    for name in asked:
        if name not in known:
            raise ValueError(
                f"--{flag}={','.join(asked)}: {name} is not one of "
                f"{', '.join(known)}."
            )


def chosen(starts, names):
    """The names that begin as --only asks; all of them if it asks for none.

    Raises:
      app.UsageError: no name begins so.
    """
    for start in starts:
        if not any(name.startswith(start) for name in names):
            raise app.UsageError(
                f"--only={start}: no name begins so; they are "
                f"{'; '.join(names)}."
            )
    return [name for name in names if name.startswith(tuple(starts or [""]))]


def processor():
    """Names the processor, and whether it multiplies 8 bits at once."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:  # no Linux
        return platform.processor() or platform.machine()
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    vnni = {x for x in facts.get("flags", "").split() if "vnni" in x}
    shown = ", ".join(sorted(vnni)) or "no VNNI"
    return f"{facts.get('model name', platform.machine())} ({shown})"


def run_once(place, facts, function, name="run.json"):
    """Runs a function unless its result is recorded in a folder.

    Args:
      place: the folder.
      facts: all that the result depends on; see `RecordedRun`.
      function: returns the result, and resumes what was stopped.
      name: of the file with the result.

    Returns:
      Whether it was run.
    """
    recorded = RecordedRun(str(place), name, facts)
    if recorded.result:
        return False
    logging.info("Running %s.", place)
    recorded.run(function)
    return True


def python_of(environment):
    """The interpreter of .venv-ENVIRONMENT, which may not be there."""
    return ROOT / f".venv-{environment}/bin/python"


def _start(
    arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, python=None
):
    """Starts a program of the project."""
    return subprocess.Popen(
        [str(x) for x in (python or sys.executable, *arguments)],
        cwd=ROOT,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
        stdout=stdout,
        stderr=stderr,
        text=True,
    )


def _check(succeeded, process, printed, expected="success"):
    """Raises RuntimeError with the end of the output if a program failed."""
    if not succeeded:
        raise RuntimeError(
            f"{' '.join(process.args)} ended with {process.returncode}, "
            f"expected {expected}:\n{printed[-3000:]}"
        )


def run_program(*arguments):
    """Runs a program to its end and returns its standard output.

    Args:
      *arguments: script, from the root of the project, and its arguments.

    Raises:
      RuntimeError: it failed; with the end of its output.
    """
    process = _start(arguments, subprocess.PIPE)
    printed, errors = process.communicate()
    _check(not process.returncode, process, printed + errors)
    return printed


def run_with_log(log, *program, python=None, **flags):
    """Runs a program to its end; its output is added to a file.

    Args:
      log: path of the file.
      *program: script, from the root of the project, and first arguments.
      python: interpreter of another environment.
      **flags: those that are None are left out.

    Raises:
      RuntimeError: it failed; with the end of its output.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    arguments = [f"--{k}={v}" for k, v in flags.items() if v is not None]
    with log.open("a") as file:
        arguments = [*program, *arguments]
        process = _start(arguments, file, subprocess.STDOUT, python)
        process.wait()
    printed, expected = log.read_text(errors="replace"), f"success; {log} has"
    _check(not process.returncode, process, printed, expected)


def seconds_to(mark, *arguments):
    """Seconds from the start of a program until it logs a line.

    Raises:
      RuntimeError: it failed or did not log the line.
    """
    began, found, log = time.perf_counter(), None, ""
    with _start(arguments) as process:
        for line in process.stderr:
            log += line
            if found is None and mark in line:
                found = time.perf_counter() - began
    expected = f"success and {mark!r} in its log"
    _check(found and not process.returncode, process, log, expected)
    return found


def write_records(text, vocab, processes, length):
    """Makes pretraining records with create_pretraining_data.py.

    Returns:
      `seconds`, without the imports of the program; `examples`; `peak_mb`, of
      all processes together.

    Raises:
      RuntimeError: the program failed.
    """
    peak, lines = 0, []
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            "create_pretraining_data.py",
            f"--input_file={text}",
            f"--vocab_file={vocab}",
            f"--output_file={folder}/out@4",
            f"--num_processes={processes}",
            f"--max_seq_length={length}",
            f"--max_predictions_per_seq={round(0.15 * length + 1)}",
            "--dupe_factor=10",
        ]
        with _start(arguments) as process:
            errors = process.stderr
            reader = threading.Thread(target=lambda: lines.extend(errors))
            reader.start()
            while process.poll() is None:
                peak = max(peak, _memory_of_tree(process.pid))
                time.sleep(_SAMPLE_S)
            reader.join()
    log = "".join(lines)
    wrote = re.search(r"Wrote ([\d,]+) examples.*; ([\d.]+) s,", log)
    _check(wrote, process, log)
    return {
        "seconds": float(wrote[2]),
        "examples": int(wrote[1].replace(",", "")),
        "peak_mb": peak / 1e6,
    }


def _memory_of_tree(pid):
    """Proportional memory (PSS) of a process and its children, in bytes."""
    total = 0
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
        total = 1024 * int(re.search(r"^Pss:\s+(\d+)", rollup, re.M)[1])
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text("ascii").split():
                total += _memory_of_tree(int(child))
    except (OSError, TypeError):
        pass  # it has ended
    return total
