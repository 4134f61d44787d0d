r"""Times FullTokenizer on a text, in one process.

  python benchmarks/tokenization.py --input_file=novels.txt \
    --vocab_file=uncased/vocab.txt

Prints MB/s of UTF-8 text: the first pass, which meets every word for the first
time, and the best of some more.
"""

import sys
import time
from pathlib import Path

from absl import app, flags

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from data import files  # noqa: E402
from data.tokenization import FullTokenizer  # noqa: E402

FLAGS = flags.FLAGS


def main(_):
    """Times both methods."""
    lines = list(files.read_lines(FLAGS.input_file))
    megabytes = sum(len(line.encode()) + 1 for line in lines) / 1e6
    for name in ("tokenize", "encode"):
        tokenizer = FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
        method = getattr(tokenizer, name)
        rates = []
        for _ in range(FLAGS.repeats + 1):
            start = time.perf_counter()
            for line in lines:
                method(line)
            rates.append(megabytes / (time.perf_counter() - start))
        print(
            f"{name}: {rates[0]:.1f} MB/s the first time, "
            f"{max(rates[1:]):.1f} MB/s after that ({megabytes:.1f} MB)"
        )


if __name__ == "__main__":
    flags.DEFINE_string("input_file", None, "UTF-8 text.", required=True)
    flags.DEFINE_string("vocab_file", None, "Vocabulary.", required=True)
    flags.DEFINE_bool("do_lower_case", True, "Casing of the vocabulary.")
    flags.DEFINE_integer("repeats", 3, "Passes after the first.")
    app.run(main)
