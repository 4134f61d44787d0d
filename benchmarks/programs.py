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

from absl import flags, logging

from data.storage.json_files import find_json, write_json
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


def define_only(names):
    """Defines the flag --only, which may be repeated; see `chosen`."""
    text = f"Beginning of a name, for this alone: {'; '.join(names)}."
    title = {"module_name": "What is measured"}
    flags.DEFINE_multi_string("only", [], text, **title)


def chosen(starts, names):
    """The names that begin as --only asks; all of them if it asks for none."""
    for start in starts:
        if not any(name.startswith(start) for name in names):
            raise ValueError(
                f"--only={start}: no name begins so; they are "
                f"{'; '.join(names)}."
            )
    return [name for name in names if name.startswith(tuple(starts or [""]))]


def processor():
    """Names the processor, whether it multiplies 8 bits at once, its cores."""
    path = Path("/proc/cpuinfo")  # Linux has it
    text = path.read_text("utf-8") if path.exists() else ""
    named = re.search(r"^model name\s*: (.*)", text, re.M)
    name = named[1] if named else platform.machine()
    vnni = ", ".join(sorted({*re.findall(r"\w*vnni\w*", text)})) or "no VNNI"
    return f"{name} ({vnni}), {os.cpu_count()} cores"


def require_same(folder, **inputs):
    """Refuses a folder that was begun with other inputs; see its inputs.json.

    `inputs` are flag -> value; of a file give the checksum.
    """
    path = f"{folder}/inputs.json"
    before = find_json(path)
    for name, value in inputs.items():
        if before.get(name, value) != value:
            raise ValueError(
                f"{folder} was begun with another {name}; give another "
                "--output_dir, or the same again."
            )
    write_json(path, before | inputs)


def run_once(place, facts, function, name="run.json"):
    """Runs a function unless its result is recorded in a folder.

    `facts` are all that the result depends on. `function` returns the result,
    and resumes what was stopped. `name` is the file's; see `RecordedRun`.
    """
    recorded = RecordedRun(str(place), name, facts)
    if not recorded.result:
        logging.info("Running %s.", place)
        recorded.run(function)


def result_in(path):
    """The result in a file of `run_once`; {} = it is not done."""
    found = find_json(str(path))
    return found if "seconds" in found else {}


def python_of(environment):
    """The interpreter of .venv-ENVIRONMENT, which may not be there."""
    return ROOT / f".venv-{environment}/bin/python"


def start(program, flags, **streams):
    """Starts a program of the project; returns its `Popen`.

    `program` is the script, from the root of the project, and its first
    arguments. `flags` that are None are left out.
    """
    given = (f"--{k}={v}" for k, v in flags.items() if v is not None)
    return subprocess.Popen(
        [str(x) for x in (sys.executable, *program, *given)],
        cwd=ROOT,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
        text=True,
        **streams,
    )


def _check(succeeded, process, printed, expected="success"):
    """Raises RuntimeError with the end of the output if a program failed."""
    if not succeeded:
        raise RuntimeError(
            f"{' '.join(process.args)} ended with {process.returncode}, "
            f"expected {expected}:\n{printed[-3000:]}"
        )


def run_program(*program, **flags):
    """Runs a program to its end, without its standard output."""
    process = _start_with_log(program, flags)
    _, log = process.communicate()
    _check(not process.returncode, process, log)


def run_with_log(log, *program, **flags):
    """Runs a program to its end; its output is added to a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        streams = {"stdout": file, "stderr": subprocess.STDOUT}
        process = start(program, flags, **streams)
        process.wait()
    printed, expected = log.read_text(errors="replace"), f"success; {log} has"
    _check(not process.returncode, process, printed, expected)


def _start_with_log(program, flags):
    """Starts a program whose log can be read from `stderr`."""
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return start(program, flags, **streams)


def seconds_to(mark, *program, **flags):
    """Seconds from the start of a program until it logs a line."""
    began, found, log = time.perf_counter(), None, ""
    with _start_with_log(program, flags) as process:
        for line in process.stderr:
            log += line
            if found is None and mark in line:
                found = time.perf_counter() - began
    expected = f"success and {mark!r} in its log"
    _check(found and not process.returncode, process, log, expected)
    return found


def write_records(**flags):
    """Makes pretraining records with create_pretraining_data.py.

    Returns `seconds`, without the imports of the program; `examples`;
    `peak_mb`, of all processes together.
    """
    peak, lines = 0, []
    with tempfile.TemporaryDirectory() as folder:
        flags["output_file"] = f"{folder}/out@4"
        program = ["create_pretraining_data.py"]
        with _start_with_log(program, flags) as process:
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
