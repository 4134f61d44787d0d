"""Measures everything that has a target, and prints the table.

Without --data, the text is that of `make demo` and the sentences of the tasks
are random words, as long as real ones. The peers that are measured are those of
`make peers`, `make peers-model-garden` and `make peers-original`.
"""

import os
import sys
import time
import traceback
from pathlib import Path

from absl import logging

from benchmarks.data import make_data
from benchmarks.programs import chosen, define_only, processor
from benchmarks.rows import ROWS, Bench
from benchmarks.tables import table
from data.storage import files
from data.storage.json_files import write_json
from training import program
from training.config import flags

_FAILED = "failed"


def _title(is_quick):
    """Processor, cores, memory and date, as a line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    gpu = "" if Path("/dev/nvidia0").exists() else ", no GPU"
    quick = ", quick: not to be trusted" if is_quick else ""
    day = time.strftime("%Y-%m-%d")
    return f"{processor()}, {memory:.0f} GiB{gpu}, {day}{quick}"


def make_bench():
    """Reads the flags; makes data if none is given."""
    bench = flags.read(Bench)
    made = bench.folder / "data"
    bench.folder.mkdir(parents=True, exist_ok=True)
    if bench.data:
        return bench
    print(f"No --data: making some in {made}", flush=True)
    make_data(made)
    return bench.replace(data=str(made))


def measure(name, bench):
    """Returns the result of a row, also if it fails."""
    load, began = os.getloadavg()[0], time.perf_counter()
    try:
        found = vars(ROWS[name](bench))
    # Broad, because rows run other programs and libraries, and an hour of
    # other rows must not be lost. The error is reported at the end.
    except Exception as error:  # noqa: BLE001
        traceback.print_exc()
        line = (str(error).strip() or repr(error)).splitlines()[-1]
        found = {"text": line, "target": "", "met": _FAILED, "values": {}}
    seconds = time.perf_counter() - began
    print(f"    {found['met']}: {found['text']} ({seconds:.0f} s)")
    return {"row": name, **found, "seconds": seconds, "load_before": load}


def write(out, title, results):
    """Writes the results as JSON and as Markdown; returns the Markdown."""
    rows = [(r["row"], r["text"], r["target"], r["met"]) for r in results]
    lines = table(("row", "measured", "target", "met"), rows)
    text = f"{title}\n\n{lines}\n"
    write_json(f"{out}/bench.json", {"machine": title, "rows": results})
    files.write_text(f"{out}/bench.md", text)
    return text


def main():
    """Measures the rows one by one."""
    logging.set_verbosity(logging.WARNING)
    names = chosen(flags.value("only"), ROWS)
    program.load_tensorflow()
    bench = make_bench()
    out = bench.output_dir
    title, results = _title(bench.quick), []
    print(title)
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name} ...", flush=True)
        results.append(measure(name, bench))
        text = write(out, title, results)
    failed = [r["row"] for r in results if r["met"] == _FAILED]
    print(f"\n{text}\nIn {out}: bench.json, bench.md")
    if failed:
        sys.exit(f"error: {len(failed)} rows failed: {', '.join(failed)}.")


if __name__ == "__main__":
    flags.define(Bench)
    define_only(ROWS)
    program.run(main)
