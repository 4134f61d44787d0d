"""This project's side of compare.py: the functions that its programs use."""

import os
import sys
from pathlib import Path

import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.ours import reading, steps, tasks, texts  # noqa: E402
from benchmarks.peers.protocol import serve  # noqa: E402
from training import program  # noqa: E402

KINDS = vars(steps) | vars(tasks) | vars(texts) | vars(reading)


def make(case):
    """Returns the ways of a case, see `protocol.serve`."""
    tf.config.threading.set_intra_op_parallelism_threads(case["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(case["threads"])
    case["threads"] = case["threads"] or os.cpu_count()
    if case["kind"] == "encoding":  # as run_sentence_vectors.py --do_encode
        program.load_tensorflow(infers_in=case["precision"])
    return KINDS[case["kind"]](case), f"TensorFlow {tf.__version__}"


if __name__ == "__main__":
    serve(make)
