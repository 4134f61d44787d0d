r"""Measures what gradient checkpointing saves in memory and costs in time.

  python benchmarks/gradient_checkpointing.py
  python benchmarks/gradient_checkpointing.py --layers=12 --hidden=768 --batch=8

One process for each side makes a few pretraining steps on random records: peak
memory is the process's own, less that of a model of the same size at rest.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path

import tensorflow as tf
from absl import app, flags

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.train_step import random_batch, seconds  # noqa: E402
from modeling import BertConfig, PretrainingModel  # noqa: E402
from training.config.options import TrainOptions, dtype_policy  # noqa: E402
from training.loop.steps import TrainSteps  # noqa: E402

FLAGS = flags.FLAGS


def define_flags():
    """Sizes of the model and the batch, and the side of a child."""
    flags.DEFINE_integer("layers", 4, "Transformer blocks.")
    flags.DEFINE_integer("hidden", 256, "Hidden size.")
    flags.DEFINE_integer("batch", 32, "Examples of a batch.")
    flags.DEFINE_integer("length", 384, "Wordpieces of an example.")
    # Small: not the logits but the blocks are measured.
    flags.DEFINE_integer("vocabulary", 1000, "Wordpieces of the vocabulary.")
    flags.DEFINE_integer("repeats", 3, "Timed steps.")
    flags.DEFINE_enum("precision", "float32", ["float32", "bfloat16"], "")
    flags.DEFINE_bool("xla", False, "Compile the gradient.")
    flags.DEFINE_bool("child", False, "Measure one side, in this process.")
    flags.DEFINE_bool("gradient_checkpointing", False, "Its side.")


def peak_mb():
    """Peak memory of this process until now."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure():
    """One side: prints megabytes over the model's own, and seconds a step."""
    config = BertConfig(
        vocab_size=FLAGS.vocabulary,
        hidden_size=FLAGS.hidden,
        num_hidden_layers=FLAGS.layers,
        num_attention_heads=max(1, FLAGS.hidden // 64),
        intermediate_size=4 * FLAGS.hidden,
    )
    model = PretrainingModel(
        config,
        dtype=dtype_policy(FLAGS.precision),
        gradient_checkpointing=FLAGS.gradient_checkpointing,
    )
    options = TrainOptions(
        output_dir="unused", num_train_steps=1000, xla=FLAGS.xla, fuse=True
    )
    steps = TrainSteps(model, options)
    batch = random_batch(config, FLAGS.batch, FLAGS.length)
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())
    at_rest = peak_mb()

    def step():
        steps.run(iterator, tf.constant(1, tf.int64), tf.constant(1)).numpy()

    best, _ = seconds(step, FLAGS.repeats)
    print(json.dumps({"megabytes": peak_mb() - at_rest, "seconds": best}))


def run_child(*more):
    """Runs one side in a process of its own."""
    done = subprocess.run(
        [sys.executable, *sys.argv, "--child", *more],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main(_):
    """Prints both sides and their ratios."""
    if FLAGS.child:
        measure()
        return
    kept = run_child()
    again = run_child("--gradient_checkpointing")
    print(
        f"{FLAGS.layers} x {FLAGS.hidden}, {FLAGS.batch} x {FLAGS.length}, "
        f"{FLAGS.precision}{', xla' if FLAGS.xla else ''}: peak over the model "
        f"at rest {kept['megabytes']:.0f} MB, with gradient checkpointing "
        f"{again['megabytes']:.0f} MB = "
        f"{again['megabytes'] / kept['megabytes']:.0%}; step "
        f"{kept['seconds']:.2f} s, {again['seconds']:.2f} s = "
        f"{again['seconds'] / kept['seconds']:.0%}"
    )


if __name__ == "__main__":
    define_flags()
    app.run(main)
