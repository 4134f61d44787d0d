r"""Times an epoch of fine-tuning: trimmed, grouped by length, and padded.

  python benchmarks/finetuning_epoch.py --records=cola/train.tf_record \
    --bert_config_file=minilm/bert_config.json

  python benchmarks/finetuning_epoch.py --records=squad/train.tf_record \
    --squad --length=384 --steps=60 --padded_steps=12 \
    --bert_config_file=minilm/bert_config.json

They take turns, so that a busy machine slows all of them. Of the padded epoch
only some steps are timed: they are all alike. What is compiled is decided for
each as a run of --epochs would, and the time it takes is of the trimmed
epoch's, not of the padded one's.
"""

import sys
import time
from pathlib import Path

from absl import app, flags

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from data.finetuning.features import feature_specs  # noqa: E402
from data.records import input_pipeline, length_batches  # noqa: E402
from data.squad import windows  # noqa: E402
from modeling import BertConfig, SpanModel, TaskModel  # noqa: E402
from training.config.options import TrainOptions, dtype_policy  # noqa: E402
from training.loop.steps import with_fusion  # noqa: E402
from training.loop.trainer import Trainer  # noqa: E402

FLAGS = flags.FLAGS
_TURNS = 6


def define_flags():
    """Records, model and batch."""
    flags.DEFINE_string("records", None, "Records of fine-tuning.")
    flags.DEFINE_bool("squad", False, "They are those of run_squad.py.")
    flags.DEFINE_string("bert_config_file", None, "Sizes of the model.")
    flags.DEFINE_integer("length", 128, "Wordpieces of an example.")
    flags.DEFINE_integer("batch", 32, "Examples of a batch.")
    flags.DEFINE_integer("epochs", 1, "Length of the run that it is part of.")
    flags.DEFINE_integer("steps", 0, "Timed trimmed steps; 0 = an epoch.")
    flags.DEFINE_integer("padded_steps", 20, "Timed padded steps.")
    flags.DEFINE_bool("random_order", False, "Time trimmed only, too.")
    flags.DEFINE_enum("precision", "float32", ["float32", "bfloat16"], "")
    flags.DEFINE_bool("xla", False, "Compile the gradient.")
    flags.DEFINE_bool("fuse", None, "As of the programs.")
    flags.mark_flags_as_required(["records", "bert_config_file"])


def open_records():
    """The records, as fine-tuning reads them."""
    if FLAGS.squad:
        specs = windows.feature_specs(FLAGS.length, is_training=True)
    else:
        specs = feature_specs("classification", FLAGS.length, num_labels=2)
    return input_pipeline.open_records([FLAGS.records], specs, limits={})


def main(_):
    """Runs the benchmark."""
    opened = open_records()
    epoch = opened.count // FLAGS.batch
    config = BertConfig.from_json_file(FLAGS.bert_config_file)
    dtype = dtype_policy(FLAGS.precision)
    if FLAGS.squad:
        model = SpanModel(config, dtype=dtype)
    else:
        model = TaskModel(config, "classification", 2, dtype=dtype)
    options = TrainOptions(
        output_dir="unused",
        train_batch_size=FLAGS.batch,
        num_train_steps=FLAGS.epochs * epoch,
        xla=FLAGS.xla,
        fuse=FLAGS.fuse,
    )

    def way(trim, group=False):
        """A trainer and its batches."""
        lengths = length_batches.trimmed_lengths(FLAGS.length)
        train = with_fusion(
            options,
            config,
            seq_length=FLAGS.length,
            num_lengths=len(lengths) if trim else 1,
        )
        batches = length_batches.training_batches(
            opened,
            batch_size=FLAGS.batch,
            seed=1,
            trim=trim,
            group_by_length=group,
            exact=not (train.fuse or train.xla),
        )
        return Trainer(model, train), iter(batches)

    steps = FLAGS.steps or epoch
    ways = {"padded": (*way(trim=False), FLAGS.padded_steps)}
    ways["trimmed, grouped"] = (*way(trim=True, group=True), steps)
    if FLAGS.random_order:
        ways["trimmed"] = (*way(trim=True), steps)
    seconds = dict.fromkeys(ways, 0.0)
    for trainer, iterator, _ in ways.values():
        trainer.run_steps(iterator, first_step=1, num_steps=2)
    for turn in range(_TURNS):
        for name, (trainer, iterator, total) in ways.items():
            count = total * (turn + 1) // _TURNS - total * turn // _TURNS
            began = time.perf_counter()
            trainer.run_steps(iterator, first_step=3, num_steps=count)
            seconds[name] += (time.perf_counter() - began) / total
    print(
        f"{opened.count} examples, batches of {FLAGS.batch} x {FLAGS.length}, "
        f"{FLAGS.precision}{', xla' if FLAGS.xla else ''}: "
        + "; ".join(
            f"{name} {step * epoch:.1f} s an epoch = "
            f"{step / seconds['padded']:.0%} ({step * 1e3:.0f} ms a step)"
            for name, step in seconds.items()
        )
    )


if __name__ == "__main__":
    define_flags()
    app.run(main)
