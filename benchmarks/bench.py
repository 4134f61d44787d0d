"""Measures everything that has a target, prints the table, draws pictures.

Without --real_data, the text is that of `make demo` and the sentences of the
tasks are random words, as long as real ones. Weights are random. The rows with
peers need `make peers`, `make peers-model-garden` and `make peers-original`. A
row that fails is reported, the other rows are measured, and the exit code is 1.
"""

import dataclasses
import json
import os
import sys
import time
import traceback
from pathlib import Path

from absl import app, flags, logging

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks import pictures  # noqa: E402
from benchmarks.data import make_data  # noqa: E402
from benchmarks.peers import compare  # noqa: E402
from benchmarks.programs import ROOT, chosen, processor  # noqa: E402
from benchmarks.rows import ROWS, Bench  # noqa: E402
from benchmarks.tables import table  # noqa: E402
from data.storage import files  # noqa: E402
from training.config.flags import define, read  # noqa: E402

FLAGS = flags.FLAGS
_FAILED = "failed"


def machine():
    """Processor, cores, memory and date, as a line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    gpu = "" if Path("/dev/nvidia0").exists() else ", no GPU"
    quick = ", quick: not to be trusted" if FLAGS.quick else ""
    return (
        f"{processor()}, {os.cpu_count()} cores, {memory:.0f} GiB{gpu}, "
        f"{time.strftime('%Y-%m-%d')}{quick}"
    )


def make_bench(out):
    """Returns what all rows are measured with; makes data if none is given."""
    folder = out / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    options = read(compare.Options)
    if not options.data:
        print(f"No --real_data: making some in {folder}/data", flush=True)
        make_data(folder / "data")
    return Bench(
        options=dataclasses.replace(
            options,
            data=os.path.abspath(options.data or folder / "data"),
            text=options.text and os.path.abspath(options.text),
        ),
        folder=folder,
        minilm=FLAGS.minilm and os.path.abspath(FLAGS.minilm),
        quick=FLAGS.quick,
    )


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
    content = json.dumps({"machine": title, "rows": results}, indent=1)
    files.write_text(f"{out}/bench.json", content + "\n")
    files.write_text(f"{out}/bench.md", text)
    return text


def main(_):
    """Measures the rows one by one."""
    logging.set_verbosity(logging.WARNING)
    names, out = chosen(FLAGS.only, ROWS), Path(FLAGS.output_dir).resolve()
    title, results = machine(), []
    print(title)
    bench = make_bench(out)
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name} ...", flush=True)
        results.append(measure(name, bench))
        text = write(out, title, results)
    folder = out if FLAGS.quick else ROOT / "benchmarks"
    failed = [r["row"] for r in results if r["met"] == _FAILED]
    values = {r["row"]: r["values"] for r in results if r["row"] not in failed}
    drawn = pictures.draw(values, folder, title)
    print(f"\n{text}\nIn {out}: bench.json, bench.md")
    for path in drawn:
        print(f"Drawn: {path}")
    if failed:
        sys.exit(f"error: {len(failed)} rows failed: {', '.join(failed)}.")


if __name__ == "__main__":
    define(compare.Options)
    flags.DEFINE_alias("real_data", "data")
    flags.DEFINE_multi_string(
        "only", [], f"Beginning of the names of rows: {', '.join(ROWS)}."
    )
    flags.DEFINE_bool("quick", False, "Few repeats: figures mean nothing.")
    flags.DEFINE_string("minilm", "", "Folder with MiniLM's weights in tf1/.")
    flags.DEFINE_string("output_dir", str(ROOT / "build"), "For the results.")
    app.run(main)
