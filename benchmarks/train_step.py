r"""Times one pretraining step and its optimizer update on random records.

  python benchmarks/train_step.py --layers=4 --hidden=256
  python benchmarks/train_step.py --layers=12 --hidden=768 --precision=bfloat16

Prints the best and the median of several steps, and the share of the machine's
own matrix-product rate, measured in the same run.
"""

import statistics
import sys
import time
from pathlib import Path

import tensorflow as tf
from absl import app, flags

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from modeling import BertConfig, PretrainingModel  # noqa: E402
from training.options import DeviceOptions, TrainOptions  # noqa: E402
from training.steps import TrainSteps  # noqa: E402

FLAGS = flags.FLAGS


def define_flags():
    """Sizes of the model and the batch."""
    flags.DEFINE_integer("layers", 4, "Transformer blocks.")
    flags.DEFINE_integer("hidden", 256, "Hidden size.")
    flags.DEFINE_integer("batch", 32, "Examples of a batch.")
    flags.DEFINE_integer("length", 128, "Wordpieces of an example.")
    flags.DEFINE_integer("repeats", 8, "Timed steps.")
    flags.DEFINE_enum("precision", "float32", ["float32", "bfloat16"], "")
    flags.DEFINE_bool("xla", False, "Compile the gradient.")


def random_batch(config, batch, length, predictions=20):
    """A batch of the shapes that records have."""

    def ints(shape, high):
        return tf.random.uniform(shape, 0, high, tf.int32, seed=1)

    return {
        "input_ids": ints([batch, length], config.vocab_size),
        "input_mask": tf.ones([batch, length], tf.int32),
        "segment_ids": ints([batch, length], 2),
        "masked_lm_positions": ints([batch, predictions], length),
        "masked_lm_ids": ints([batch, predictions], config.vocab_size),
        "masked_lm_weights": tf.ones([batch, predictions]),
        "next_sentence_labels": ints([batch, 1], 2),
    }


def seconds(function, repeats):
    """Times calls after two warm-up calls: (best, median)."""
    function()
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times), statistics.median(times)


def flops(config, batch, length, predictions=20):
    """Multiplications and additions of matrix products, three passes."""
    rows, hidden = batch * length, config.hidden_size
    block = 2 * rows * (4 * hidden**2 + 2 * hidden * config.intermediate_size)
    attention = 2 * 2 * rows * length * hidden
    scored = batch * predictions
    head = 2 * scored * (hidden**2 + hidden * config.vocab_size)
    return 3 * (config.num_hidden_layers * (block + attention) + head)


def matrix_rate(dtype, rows, hidden, repeats):
    """GFLOP/s of [rows, hidden] x [hidden, 4 * hidden], best of several."""
    a = tf.cast(tf.random.normal([rows, hidden]), dtype)
    b = tf.cast(tf.random.normal([hidden, 4 * hidden]), dtype)

    @tf.function
    def products():
        return [tf.matmul(a + i, b)[0, 0] for i in tf.unstack(shifts)]

    shifts = tf.cast(tf.range(10), dtype)
    best, _ = seconds(products, repeats)
    return 10 * 2 * rows * hidden * 4 * hidden / best / 1e9


def main(_):
    """Runs the benchmark."""
    config = BertConfig(
        vocab_size=30522,
        hidden_size=FLAGS.hidden,
        num_hidden_layers=FLAGS.layers,
        num_attention_heads=FLAGS.hidden // 64,
        intermediate_size=4 * FLAGS.hidden,
        type_vocab_size=2,
    )
    model = PretrainingModel(
        config, dtype=DeviceOptions(precision=FLAGS.precision).dtype_policy
    )
    steps = TrainSteps(
        model,
        TrainOptions(
            output_dir="unused",
            train_batch_size=FLAGS.batch,
            num_train_steps=1000,
            xla=FLAGS.xla,
        ),
    )
    batch = random_batch(config, FLAGS.batch, FLAGS.length)
    dataset = iter(tf.data.Dataset.from_tensors(batch).repeat())

    first, one = tf.constant(1, tf.int64), tf.constant(1)

    def step():
        return steps.run(dataset, first, one).numpy()

    gradients = [tf.zeros(v.shape) for v in steps.weights.values()]
    apply = tf.function(steps.optimizer.apply)
    rate = tf.constant(1e-4)
    best, median = seconds(step, FLAGS.repeats)
    update, _ = seconds(lambda: apply(gradients, rate).numpy(), FLAGS.repeats)
    gflops = flops(config, FLAGS.batch, FLAGS.length) / best / 1e9
    ceiling = matrix_rate(
        "bfloat16" if FLAGS.precision == "bfloat16" else "float32",
        FLAGS.batch * FLAGS.length,
        FLAGS.hidden,
        FLAGS.repeats,
    )
    print(
        f"{FLAGS.layers} x {FLAGS.hidden}, {FLAGS.batch} x {FLAGS.length}, "
        f"{FLAGS.precision}{', xla' if FLAGS.xla else ''}: "
        f"step {best * 1e3:.0f} ms best, "
        f"{median * 1e3:.0f} ms median; {FLAGS.batch / best:.1f} examples/s; "
        f"{gflops:.0f} GFLOP/s = {gflops / ceiling:.0%} of the matrix rate "
        f"{ceiling:.0f}; optimizer update {update * 1e3:.1f} ms"
    )


if __name__ == "__main__":
    define_flags()
    app.run(main)
