r"""Times the streaming writer of create_pretraining_data.py.

  python benchmarks/pretraining_data.py --input_file=novels.txt \
    --vocab_file=uncased/vocab.txt

Prints, for each number of processes and each length, examples and MB of text a
second (tokenization and shuffling included, imports of the program not), and
the peak memory of all its processes together.
"""

import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from absl import app, flags

FLAGS = flags.FLAGS
ROOT = Path(__file__).resolve().parent.parent
_SAMPLE_S = 0.1


def memory_of_tree(pid):
    """Proportional memory (PSS) of a process and its children, in bytes."""
    total = 0
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
        total = 1024 * int(re.search(r"^Pss:\s+(\d+)", rollup, re.M)[1])
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text("ascii").split():
                total += memory_of_tree(child)
    except (OSError, TypeError):
        pass  # it has ended
    return total


def run(num_processes, length):
    """One run; returns examples a second, bytes a second, peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        log, peak = write(num_processes, length, folder)
    wrote = re.search(r"Wrote ([\d,]+) examples.*; ([\d.]+) s,", log)
    if not wrote:
        sys.exit(log)
    seconds = float(wrote[2])
    num_bytes = Path(FLAGS.input_file).stat().st_size
    return int(wrote[1].replace(",", "")) / seconds, num_bytes / seconds, peak


def write(num_processes, length, folder):
    """Runs the program; returns its log and its peak memory."""
    process = subprocess.Popen(
        [
            sys.executable,
            str(ROOT / "create_pretraining_data.py"),
            f"--input_file={FLAGS.input_file}",
            f"--vocab_file={FLAGS.vocab_file}",
            f"--output_file={folder}/out@{FLAGS.num_shards}",
            f"--num_processes={num_processes}",
            f"--max_seq_length={length}",
            f"--max_predictions_per_seq={round(0.15 * length + 1)}",
            f"--dupe_factor={FLAGS.dupe_factor}",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    peak = 0
    reader = threading.Thread(target=lambda: lines.extend(process.stderr))
    lines = []
    reader.start()
    while process.poll() is None:
        peak = max(peak, memory_of_tree(process.pid))
        time.sleep(_SAMPLE_S)
    reader.join()
    return "".join(lines), peak


def main(argv):
    """Prints a table."""
    del argv
    print("processes  length  examples/s  MB of text/s  peak memory, MB")
    for length in map(int, FLAGS.lengths):
        for num_processes in map(int, FLAGS.processes):
            rates = [run(num_processes, length) for _ in range(FLAGS.repeats)]
            examples, text, peak = max(rates)
            print(
                f"{num_processes:9} {length:7} {examples:11,.0f} "
                f"{text / 1e6:13.2f} {peak / 1e6:16.0f}",
                flush=True,
            )


if __name__ == "__main__":
    flags.DEFINE_string("input_file", None, "UTF-8 text file.")
    flags.DEFINE_string("vocab_file", None, "Uncased vocabulary.")
    flags.DEFINE_list("processes", ["1", "2"], "Numbers of processes.")
    flags.DEFINE_list("lengths", ["128", "512"], "Maximum lengths.")
    flags.DEFINE_integer("num_shards", 4, "Output files.")
    flags.DEFINE_integer("dupe_factor", 5, "Passes over the text.")
    flags.DEFINE_integer("repeats", 2, "Runs of each; the best counts.")
    flags.mark_flags_as_required(["input_file", "vocab_file"])
    app.run(main)
