r"""Times one pretraining step and its optimizer update on random records.

  python benchmarks/train_step.py --layers=4 --hidden=256
  python benchmarks/train_step.py --layers=12 --hidden=768 --precision=bfloat16

Prints the best and the median of several steps; the share of the machine's
own rate of one large matrix product, measured in the same run; and the share of
the step that its matrix products, at their own shapes, take by themselves.
"""

import statistics
import sys
import time
from pathlib import Path

import tensorflow as tf
from absl import app, flags

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from modeling import BertConfig, PretrainingModel  # noqa: E402
from training.config.options import TrainOptions, dtype_policy  # noqa: E402
from training.loop.steps import TrainSteps  # noqa: E402

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
    flags.DEFINE_bool("fuse", True, "Compile the elementwise parts.")


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


def flops(config, batch, length, predictions=20, *, reads_all=False):
    """Multiplications and additions of matrix products, three passes.

    Args:
      config: the model's sizes.
      batch: examples.
      length: wordpieces of each.
      predictions: of each; 0 = the encoder alone.
      reads_all: the last block is read everywhere, as for spans; False = at
        the predictions and the first wordpiece.

    Returns:
      Their number.
    """
    rows, hidden = batch * length, config.hidden_size

    def block(read):
        looked_at = 2 * rows * 2 * hidden**2  # keys and values
        dense = 2 * hidden**2 + 2 * hidden * config.intermediate_size
        return looked_at + 2 * read * dense + 2 * 2 * read * length * hidden

    read = rows if reads_all else batch * (1 + predictions)
    blocks = (config.num_hidden_layers - 1) * block(rows) + block(read)
    scored = batch * predictions
    head = 2 * scored * (hidden**2 + hidden * config.vocab_size)
    return 3 * (blocks + head)


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


def products(config, batch, length, predictions=20, *, training=True):
    """All matrix products of a step.

    Args:
      config: the model's sizes.
      batch: examples.
      length: wordpieces of each.
      predictions: of each; 0 = the encoder alone, read at the first wordpiece.
      training: with those of the gradient.

    Returns:
      (how many, [leading dimensions], m, k, n, transpose_a, transpose_b) of
      each kind.
    """
    rows, hidden, wide = (
        batch * length,
        config.hidden_size,
        config.intermediate_size,
    )
    heads = config.num_attention_heads
    kinds = []

    def add(count, leading, m, k, n, transposed=False):
        """X [m, k] times w [k, n], and its two gradients."""
        kinds.append((count, leading, m, k, n, False, transposed))
        if not training:
            return
        kinds.append((count, leading, m, n, k, False, not transposed))
        if transposed:
            kinds.append((count, leading, n, m, k, True, False))
        else:
            kinds.append((count, leading, k, m, n, True, False))

    def add_blocks(count, read):
        """Blocks that are read at some positions of each example."""
        add(2 * count, [], rows, hidden, hidden)  # keys and values
        add(2 * count, [], batch * read, hidden, hidden)
        add(count, [], batch * read, hidden, wide)
        add(count, [], batch * read, wide, hidden)
        add(count, [batch, heads], read, hidden // heads, length, True)
        add(count, [batch, heads], read, length, hidden // heads)

    add_blocks(config.num_hidden_layers - 1, length)
    add_blocks(1, 1 + predictions)
    if predictions:
        add(1, [], batch * predictions, hidden, config.vocab_size, True)
    return kinds


def products_seconds(kinds, dtype, repeats):
    """Time of matrix products alone, one after the other.

    Args:
      kinds: what `products` tells.
      dtype: of the factors.
      repeats: of each, of which the best counts.
    """
    total = 0.0
    for count, leading, m, k, n, transpose_a, transpose_b in kinds:
        a, b = (
            tf.cast(tf.random.normal([*leading, *shape]), dtype)
            for shape in (
                (k, m) if transpose_a else (m, k),
                (n, k) if transpose_b else (k, n),
            )
        )
        product = tf.function(
            lambda a, b, ta=transpose_a, tb=transpose_b: tf.matmul(
                a, b, transpose_a=ta, transpose_b=tb
            )
        )
        best, _ = seconds(lambda p=product, a=a, b=b: p(a, b), repeats)
        total += count * best
    return total


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
    model = PretrainingModel(config, dtype=dtype_policy(FLAGS.precision))
    steps = TrainSteps(
        model,
        TrainOptions(
            output_dir="unused",
            train_batch_size=FLAGS.batch,
            num_train_steps=1000,
            xla=FLAGS.xla,
            fuse=FLAGS.fuse,
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
    update, _ = seconds(
        lambda: apply(gradients, rate, first).numpy(), FLAGS.repeats
    )
    gflops = flops(config, FLAGS.batch, FLAGS.length) / best / 1e9
    ceiling = matrix_rate(
        FLAGS.precision, FLAGS.batch * FLAGS.length, FLAGS.hidden, FLAGS.repeats
    )
    alone = products_seconds(
        products(config, FLAGS.batch, FLAGS.length),
        FLAGS.precision,
        FLAGS.repeats,
    )
    print(
        f"{FLAGS.layers} x {FLAGS.hidden}, {FLAGS.batch} x {FLAGS.length}, "
        f"{FLAGS.precision}{', xla' if FLAGS.xla else ''}"
        f"{'' if FLAGS.fuse else ', not fused'}: "
        f"step {best * 1e3:.0f} ms best, "
        f"{median * 1e3:.0f} ms median; {FLAGS.batch / best:.1f} examples/s; "
        f"{gflops:.0f} GFLOP/s = {gflops / ceiling:.0%} of the matrix rate "
        f"{ceiling:.0f}; its matrix products alone {alone * 1e3:.0f} ms = "
        f"{alone / best:.0%}; optimizer update {update * 1e3:.1f} ms"
    )


if __name__ == "__main__":
    define_flags()
    app.run(main)
