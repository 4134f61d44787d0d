r"""Times the tokenizers on a text.

  python benchmarks/tokenization.py --input_file=novels.txt \
    --vocab_file=uncased/vocab.txt

Prints MB/s of UTF-8 text. FullTokenizer, in one process: the first pass, which
meets every word for the first time, and the best of some more. The tokenizer in
the graph, in tf.data: the best of the same number, ids alone and with offsets.
"""

import sys
import time
from pathlib import Path

import tensorflow as tf
from absl import app, flags

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from data.in_graph.tokenization import InGraphTokenizer  # noqa: E402
from data.storage import files  # noqa: E402
from data.text.tokenization import FullTokenizer  # noqa: E402

FLAGS = flags.FLAGS


def time_full_tokenizer(lines, megabytes):
    """Times both methods."""
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


def time_in_graph_tokenizer(lines, megabytes):
    """Times both methods on lines that are in memory."""
    start = time.perf_counter()
    tokenizer = InGraphTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
    print(f"in the graph: made in {time.perf_counter() - start:.1f} s")
    lines = tf.data.Dataset.from_tensor_slices(lines).batch(FLAGS.batch_size)
    for name in ("tokenize", "tokenize_with_offsets"):
        dataset = lines.map(
            getattr(tokenizer, name), num_parallel_calls=FLAGS.parallel_calls
        )
        rates = []
        cpu_rates = []
        for _ in range(FLAGS.repeats + 1):
            start = time.perf_counter()
            cpu_start = time.process_time()
            for _ in dataset:
                pass
            cpu_rates.append(megabytes / (time.process_time() - cpu_start))
            rates.append(megabytes / (time.perf_counter() - start))
        print(
            f"in the graph, {name}: {max(rates[1:]):.1f} MB/s, "
            f"{max(cpu_rates[1:]):.1f} MB per second of CPU (batches of "
            f"{FLAGS.batch_size} lines, {FLAGS.parallel_calls} parallel calls)"
        )


def main(_):
    """Times both tokenizers."""
    lines = list(files.read_lines(FLAGS.input_file))
    megabytes = sum(len(line.encode()) + 1 for line in lines) / 1e6
    time_full_tokenizer(lines, megabytes)
    time_in_graph_tokenizer(lines, megabytes)


if __name__ == "__main__":
    flags.DEFINE_string("input_file", None, "UTF-8 text.", required=True)
    flags.DEFINE_string("vocab_file", None, "Vocabulary.", required=True)
    flags.DEFINE_bool("do_lower_case", True, "Casing of the vocabulary.")
    flags.DEFINE_integer("repeats", 3, "Passes after the first.")
    flags.DEFINE_integer("batch_size", 1024, "Lines in a batch of tf.data.")
    flags.DEFINE_integer("parallel_calls", 2, "Batches at once in tf.data.")
    app.run(main)
