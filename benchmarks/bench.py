r"""Measures all that has a target, prints the table and draws the pictures.

  make bench
  make bench REAL_DATA=DIR MINILM=DIR
  python benchmarks/bench.py --quick --only=startup --only=tokenizing

Needs no data: without --real_data the text is that of `make demo`, and the
sentences of the tasks are made, as long as real ones. Weights are random.
`make peers` and `make peers-model-garden` make what the rows against peers
need. A row that fails is told and the others go on; the exit code is then 1.
"""

import json
import os
import platform
import sys
import time
import traceback
from pathlib import Path

from absl import app, flags, logging

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks import bench_inputs, bench_pictures  # noqa: E402
from benchmarks.bench_inputs import ROOT  # noqa: E402
from benchmarks.bench_rows import ROWS  # noqa: E402
from benchmarks.bench_run import Bench  # noqa: E402
from data.storage import files  # noqa: E402

FLAGS = flags.FLAGS
_FAILED = "failed"


def define_flags():
    """What is measured, and on what."""
    flags.DEFINE_multi_string(
        "only", [], f"Rows whose names begin so; of {', '.join(ROWS)}."
    )
    flags.DEFINE_bool("quick", False, "Few repeats: figures are worthless.")
    flags.DEFINE_string("real_data", None, "Folder: peers/compare.py --data.")
    flags.DEFINE_string("text", "", "Text file in place of the data's.")
    flags.DEFINE_string("minilm", "", "Folder with MiniLM's weights in tf1/.")
    flags.DEFINE_string("output_dir", str(ROOT / "build"), "Of the results.")
    flags.DEFINE_string(
        "pictures",
        None,
        "Folder of the pictures; benchmarks/, with --quick the output_dir.",
    )
    flags.DEFINE_string(
        "environment", str(ROOT / ".venv-peers"), "See peers/compare.py."
    )
    flags.DEFINE_string(
        "model_garden_environment",
        str(ROOT / ".venv-model-garden"),
        "See peers/compare.py.",
    )


def machine():
    """Processor, cores, memory and date, in a line."""
    cpu = platform.machine()
    if Path("/proc/cpuinfo").exists():
        for line in files.read_lines("/proc/cpuinfo"):
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    gpu = "" if Path("/dev/nvidia0").exists() else ", no GPU"
    quick = ", quick: not to be trusted" if FLAGS.quick else ""
    return (
        f"{cpu}, {os.cpu_count()} cores, {memory:.0f} GiB{gpu}, "
        f"{time.strftime('%Y-%m-%d')}{quick}"
    )


def chosen_rows():
    """The rows of --only, in the order of the table."""
    for start in FLAGS.only:
        if not any(name.startswith(start) for name in ROWS):
            raise app.UsageError(
                f"--only={start} is the beginning of no row; there are "
                f"{', '.join(ROWS)}."
            )
    return [n for n in ROWS if n.startswith(tuple(FLAGS.only or [""]))]


def make_bench(out):
    """What all rows are measured with; makes the data if none is given."""
    folder = out / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "data"
    if FLAGS.real_data:
        data = Path(FLAGS.real_data).resolve()
    else:
        print(f"No --real_data: making some in {data}", flush=True)
        bench_inputs.make_data(data)
    return Bench(
        data=data,
        text=FLAGS.text and str(Path(FLAGS.text).resolve()),
        minilm=FLAGS.minilm and str(Path(FLAGS.minilm).resolve()),
        folder=folder,
        quick=FLAGS.quick,
        environment=FLAGS.environment,
        model_garden_environment=FLAGS.model_garden_environment,
    )


def measure(name, bench):
    """A row's result, also if it fails."""
    load, began = os.getloadavg()[0], time.perf_counter()
    try:
        found = vars(ROWS[name](bench))
    # Broad, because rows run other programs and libraries, and an hour of
    # other rows must not be lost; it is told, and the exit code is 1.
    except Exception as error:  # noqa: BLE001
        traceback.print_exc()
        told = (str(error).strip() or repr(error)).splitlines()[-1]
        found = {"text": told, "target": "", "met": _FAILED, "values": {}}
    seconds = time.perf_counter() - began
    return {"row": name, **found, "seconds": seconds, "load_before": load}


def table(results, title):
    """The results as Markdown.

    Args:
      results: see `measure`.
      title: the line above.
    """
    rows = [("row", "measured", "target", "met"), ("---",) * 4]
    rows += [(r["row"], r["text"], r["target"], r["met"]) for r in results]
    lines = ("| " + " | ".join(row).replace("\n", " ") + " |" for row in rows)
    return "\n".join([title, "", *lines, ""])


def main(_):
    """Measures the rows one by one."""
    logging.set_verbosity(logging.WARNING)
    names, out = chosen_rows(), Path(FLAGS.output_dir).resolve()
    title, results = machine(), []
    print(title)
    bench = make_bench(out)
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name} ...", flush=True)
        result = measure(name, bench)
        results.append(result)
        print(
            f"    {result['met']}: {result['text']} ({result['seconds']:.0f} s)"
        )
        files.write_text(
            str(out / "bench.json"),
            json.dumps({"machine": title, "rows": results}, indent=1) + "\n",
        )
        files.write_text(str(out / "bench.md"), table(results, title))
    pictures = FLAGS.pictures or (out if FLAGS.quick else ROOT / "benchmarks")
    drawn = bench_pictures.draw(
        {r["row"]: r["values"] for r in results if r["met"] != _FAILED},
        Path(pictures),
        title,
    )
    print(f"\n{table(results, title)}\nIn {out}: bench.json, bench.md")
    for path in drawn:
        print(f"Drawn: {path}")
    failed = [r["row"] for r in results if r["met"] == _FAILED]
    if failed:
        sys.exit(f"error: {len(failed)} rows failed: {', '.join(failed)}.")


if __name__ == "__main__":
    define_flags()
    app.run(main)
