r"""A pretraining step taken apart: by sequence length, and by what it does.

  python benchmarks/bench_step.py --lengths=64,128,256,512
  python benchmarks/bench_step.py --layers=12 --hidden=768 --parts

Prints a line of JSON: wordpieces a second at each length, the wordpieces of a
batch being the same at all; or the share of a step's time that each part takes,
by TensorFlow's own profiler.
"""

import json
import re
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import tensorflow as tf
from absl import app, flags

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import train_step  # noqa: E402

from modeling import BertConfig, PretrainingModel  # noqa: E402
from training.config.options import TrainOptions, dtype_policy  # noqa: E402
from training.loop.steps import TrainSteps  # noqa: E402

FLAGS = flags.FLAGS
FORWARD = "matrix products, forward"
BACKWARD = "matrix products, backward"
ATTENTION = "attention products"
RANDOM = "dropout's random numbers"
ELEMENTWISE = "compiled elementwise parts"
VOCABULARY_LOSS = "vocabulary loss"
OPTIMIZER = "optimizer"
REST = "casts, transposes, rest"
PARTS = (
    *(FORWARD, BACKWARD, ATTENTION, RANDOM),
    *(ELEMENTWISE, VOCABULARY_LOSS, OPTIMIZER, REST),
)
# Events of TensorFlow's operations are called `name:Type`.
_OPERATION = re.compile(r"[^:\s]+:([^:\s]+)")
# Those that only call others.
_CALLS = re.compile(r"(Stateful|Stateless)?(PartitionedCall|While|If)")
_MODULE = re.compile(r"a_inference_(\w+?)_\d+__")


def define_flags():
    """Sizes of the model and the batch."""
    flags.DEFINE_integer("layers", 4, "Transformer blocks.")
    flags.DEFINE_integer("hidden", 256, "Hidden size.")
    flags.DEFINE_integer("wordpieces", 4096, "Of a batch.")
    flags.DEFINE_list("lengths", ["128"], "Wordpieces of an example.")
    flags.DEFINE_integer("repeats", 5, "Timed steps; with --parts, profiled.")
    flags.DEFINE_enum("precision", "float32", ["float32", "bfloat16"], "")
    flags.DEFINE_bool("parts", False, "Shares of time, of the first length.")


def make_steps():
    """A model with random weights and its training steps."""
    config = BertConfig(
        vocab_size=30522,
        hidden_size=FLAGS.hidden,
        num_hidden_layers=FLAGS.layers,
        num_attention_heads=FLAGS.hidden // 64,
        intermediate_size=4 * FLAGS.hidden,
        type_vocab_size=2,
    )
    batch = FLAGS.wordpieces // int(FLAGS.lengths[0])
    options = TrainOptions(
        output_dir="unused",
        train_batch_size=batch,
        num_train_steps=1000,
        fuse=True,
    )
    dtype = dtype_policy(FLAGS.precision)
    return config, TrainSteps(PretrainingModel(config, dtype=dtype), options)


def make_step(config, steps, length):
    """A function that does one step of some length."""
    predictions = round(0.15 * length + 1)
    batch = train_step.random_batch(
        config, FLAGS.wordpieces // length, length, predictions
    )
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())
    first, one = tf.constant(1, tf.int64), tf.constant(1)
    return lambda: steps.run(iterator, first, one).numpy()


def profile(step, repeats):
    """Profiles calls, after two warm-up calls.

    Args:
      step: the function.
      repeats: calls.

    Returns:
      The profiler's XSpace.
    """
    # TensorFlow's copy of the format; it has no public name.
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    step()
    step()
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            for _ in range(repeats):
                step()
        (path,) = Path(folder).rglob("*.xplane.pb")
        return xplane_pb2.XSpace.FromString(path.read_bytes())


def spans(space):
    """What ran when.

    Args:
      space: the profiler's XSpace.

    Returns:
      List of (begin, end, part), in picoseconds.
    """
    found = []
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                begin = 1000 * line.timestamp_ns + event.offset_ps
                span = begin, begin + event.duration_ps
                name = plane.event_metadata[event.metadata_id].name
                if module := _module(plane, event):
                    found.append((*span, _compiled_part(module)))
                elif operation := _OPERATION.fullmatch(name):
                    if not _CALLS.fullmatch(operation[1]):
                        found.append((*span, part_of(name, operation[1])))
    return found


def _module(plane, event):
    """The program of XLA that an event belongs to; "" = none."""
    for stat in event.stats:
        if plane.stat_metadata[stat.metadata_id].name == "hlo_module":
            if stat.WhichOneof("value") == "ref_value":
                return plane.stat_metadata[stat.ref_value].name
            return stat.str_value
    return ""


def part_of(name, kind):
    """The part that one of TensorFlow's operations belongs to.

    Args:
      name: of the operation, with the scopes around it.
      kind: its type, of oneDNN's operations theirs.
    """
    if "BatchMatMul" in kind:
        return ATTENTION
    if "MatMul" in kind and "bias_gradient" not in name:
        backward = "gradient_tape/" in name or "vocabulary_gradient" in name
        return BACKWARD if backward else FORWARD
    if "vocabulary_" in name:
        return VOCABULARY_LOSS
    return RANDOM if "StatelessRandom" in kind else REST


def _compiled_part(module):
    """The part that a program of XLA belongs to."""
    function = _MODULE.match(module)
    return OPTIMIZER if function and "update" in function[1] else ELEMENTWISE


def shares(found):
    """Share of each part in the time from the first span to the last.

    Args:
      found: see `spans`; where several run at once they share the time, and
        where none does it is the rest's.

    Returns:
      Part -> share; they add up to 1.
    """
    changes = sorted(
        [(begin, 1, part) for begin, _, part in found]
        + [(end, -1, part) for _, end, part in found]
    )
    total, active, before = defaultdict(float), Counter(), changes[0][0]
    for time, change, part in changes:
        running = active.total()
        if running:
            for name, count in active.items():
                total[name] += (time - before) * count / running
        else:
            total[REST] += time - before
        active[part] += change
        before = time
    whole = sum(total.values())
    return {part: total[part] / whole for part in PARTS}


def main(_):
    """Measures."""
    config, steps = make_steps()
    lengths = [int(length) for length in FLAGS.lengths]
    if FLAGS.parts:
        step = make_step(config, steps, lengths[0])
        space = profile(step, FLAGS.repeats)
        print(json.dumps(shares(spans(space))))
        return
    rates = {}
    for length in lengths:
        step = make_step(config, steps, length)
        best, _ = train_step.seconds(step, FLAGS.repeats)
        rates[length] = FLAGS.wordpieces // length * length / best
    print(json.dumps(rates))


if __name__ == "__main__":
    define_flags()
    app.run(main)
