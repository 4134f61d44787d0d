r"""Times an epoch of fine-tuning: trimmed, grouped by length, and padded.

  python benchmarks/finetuning_epoch.py --records=cola/train.tf_record \
    --bert_config_file=minilm/bert_config.json

They take turns, so that a busy machine slows all of them. Of the padded epoch
only some steps are timed: they are all alike.
"""

import sys
import time
from pathlib import Path

from absl import app, flags

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from data import input_pipeline, length_batches, records  # noqa: E402
from modeling import BertConfig, TaskModel  # noqa: E402
from training.loop import Trainer  # noqa: E402
from training.options import DeviceOptions, TrainOptions  # noqa: E402

FLAGS = flags.FLAGS
_TURNS = 6


def define_flags():
    """Records, model and batch."""
    flags.DEFINE_string("records", None, "Records of a classification task.")
    flags.DEFINE_string("bert_config_file", None, "Sizes of the model.")
    flags.DEFINE_integer("length", 128, "Wordpieces of an example.")
    flags.DEFINE_integer("batch", 32, "Examples of a batch.")
    flags.DEFINE_integer("padded_steps", 20, "Timed padded steps.")
    flags.DEFINE_bool("random_order", False, "Time trimmed only, too.")
    flags.DEFINE_enum("precision", "float32", ["float32", "bfloat16"], "")
    flags.DEFINE_bool("xla", False, "Compile the gradient.")
    flags.mark_flags_as_required(["records", "bert_config_file"])


def open_records():
    """The records, as fine-tuning reads them."""
    names = ("input_ids", "input_mask", "segment_ids")
    specs = [records.FeatureSpec(name, FLAGS.length) for name in names]
    specs += [
        records.FeatureSpec(name, 1)
        for name in ("label_ids", "is_real_example")
    ]
    return input_pipeline.open_records([FLAGS.records], specs, limits={})


def main(_):
    """Runs the benchmark."""
    opened = open_records()
    epoch = opened.count // FLAGS.batch
    model = TaskModel(
        BertConfig.from_json_file(FLAGS.bert_config_file),
        "classification",
        2,
        dtype=DeviceOptions(precision=FLAGS.precision).dtype_policy,
    )
    trainer = Trainer(
        model,
        TrainOptions(
            output_dir="unused",
            train_batch_size=FLAGS.batch,
            num_train_steps=10 * epoch,
            xla=FLAGS.xla,
        ),
    )

    def batches(**options):
        return iter(
            length_batches.training_batches(
                opened, batch_size=FLAGS.batch, seed=1, **options
            )
        )

    ways = {"padded": (batches(trim=False), FLAGS.padded_steps)}
    ways["trimmed, grouped"] = (batches(group_by_length=True), epoch)
    if FLAGS.random_order:
        ways["trimmed"] = (batches(), epoch)
    seconds = dict.fromkeys(ways, 0.0)
    for iterator, _ in ways.values():
        trainer.run_steps(iterator, first_step=1, num_steps=2)
    for turn in range(_TURNS):
        for name, (iterator, total) in ways.items():
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
