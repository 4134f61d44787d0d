r"""Hands every program's step to the compiler of Cloud TPUs; no TPU is needed.

    python3 -m venv jax && jax/bin/pip install 'jax[tpu]==0.10.2'
    .venv/bin/python benchmarks/tpu_compiler.py --folder=/tmp/steps
    jax/bin/python benchmarks/tpu_compiler_theirs.py /tmp/steps v5e:2x2

The first command writes a program a step, as TensorFlow hands it to XLA; the
second, which knows nothing of this project, compiles each with libtpu and
prints how long it took and the memory that one core needs.
`--bert_config_file`, `--batch_size`, `--max_seq_length` and `--precision` give
the sizes of the step of pretraining; the others are small.
"""

import os
import pathlib
import sys

import tensorflow as tf
from absl import app, flags, logging

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from modeling import (  # noqa: E402
    BertConfig,
    PretrainingModel,
    SpanModel,
    TaskModel,
)
from training.config.options import TrainOptions  # noqa: E402
from training.finetuning.predictions import Scorer  # noqa: E402
from training.loop import optimizers, steps  # noqa: E402
from training.vectors.extractor import Extractor, VectorOptions  # noqa: E402

FLAGS = flags.FLAGS
SMALL = BertConfig(
    vocab_size=1200,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=512,
)
NUM_LABELS = 3


def define_flags():
    """Where to, and the sizes of pretraining."""
    flags.DEFINE_string("folder", None, "Where the programs go.")
    flags.DEFINE_string("bert_config_file", None, "Of pretraining.")
    flags.DEFINE_integer("batch_size", 16, "Of pretraining, on one core.")
    flags.DEFINE_integer("max_seq_length", 128, "Of pretraining.")
    flags.DEFINE_enum(
        "precision",
        "mixed_bfloat16",
        ["float32", "mixed_bfloat16"],
        "Policy of pretraining.",
    )


def batch_of(rows, length, **others):
    """A batch of nothing: shapes are all that a compiler looks at."""
    names = ("input_ids", "input_mask", "segment_ids")
    shapes = {name: [rows, length] for name in names} | others
    floats = ("masked_lm_weights",)
    return {
        name: tf.zeros(shape, tf.float32 if name in floats else tf.int32)
        for name, shape in shapes.items()
    }


def update_of(model, batch, count):
    """The arguments of `write` for an update."""
    made = steps.TrainSteps(
        model,
        TrainOptions(
            output_dir="",
            train_batch_size=len(batch["input_ids"]),
            num_train_steps=100,
            num_warmup_steps=10,
            gradient_accumulation_steps=count,
        ),
    )
    return made._replica_step, batch, tf.constant(1, tf.int64), tf.constant(1.0)


def pretraining():
    """An update of run_pretraining.py."""
    rows, length = FLAGS.batch_size, FLAGS.max_seq_length
    config = SMALL
    if FLAGS.bert_config_file:
        config = BertConfig.from_json_file(FLAGS.bert_config_file)
    masked = [rows, length * 20 // 128]
    names = ("masked_lm_ids", "masked_lm_positions", "masked_lm_weights")
    batch = batch_of(rows, length, **{name: masked for name in names})
    batch["next_sentence_labels"] = tf.zeros([rows, 1], tf.int32)
    model = PretrainingModel(
        config, dtype=FLAGS.precision, use_one_hot_embeddings=True
    )
    return update_of(model, batch, 1)


def task(kind, trains, **options):
    """An update of run_classifier.py, or its answers."""
    model = TaskModel(
        SMALL, kind, NUM_LABELS, use_one_hot_embeddings=True, **options
    )
    labels = [8, 32] if kind == "tagging" else [8, 1]
    others = {"label_ids": labels, "is_real_example": [8, 1]}
    if kind == "tagging":
        others["label_mask"] = labels
    batch = batch_of(8, 32 * (NUM_LABELS if kind == "choice" else 1), **others)
    if trains:
        return update_of(model, batch, 2)
    batch["example_index"] = tf.zeros([8, 1], tf.int32)
    return Scorer(model)._replica_step, batch


def span(trains):
    """An update of run_squad.py, or its answers."""
    model = SpanModel(SMALL, use_one_hot_embeddings=True)
    places = {"start_positions": [8, 1], "end_positions": [8, 1]}
    if trains:
        return update_of(model, batch_of(8, 128, **places), 2)
    batch = batch_of(8, 128, example_index=[8, 1], is_real_example=[8, 1])
    return Scorer(model)._replica_step, batch


def vectors():
    """A batch of extract_features.py."""
    extractor = Extractor(
        SMALL,
        VectorOptions(layers=(-1, -2), whole_words=True),
        max_seq_length=128,
        batch_size=8,
        use_one_hot_embeddings=True,
    )
    return extractor._replica_step, batch_of(8, 128, word_ids=[8, 128])


PROGRAMS = {
    "run_pretraining": pretraining,
    "run_classifier": lambda: task("classification", trains=True),
    "run_classifier_choice": lambda: task("choice", trains=True),
    "run_classifier_tagging_bilstm": lambda: task(
        "tagging", trains=True, head="bilstm"
    ),
    "run_classifier_predict": lambda: task("classification", trains=False),
    "run_squad": lambda: span(trains=True),
    "run_squad_predict": lambda: span(trains=False),
    "extract_features": vectors,
}


def main(argv):
    """Writes a file for each step."""
    del argv
    # The road of a TPU: each device updates its own copy of the weights.
    optimizers.is_tpu = steps.is_tpu = lambda strategy: True
    os.makedirs(FLAGS.folder, exist_ok=True)
    for name, make in PROGRAMS.items():
        step, *arguments = make()
        function = tf.function(step, jit_compile=True)
        program = function.experimental_get_compiler_ir(*arguments)
        path = os.path.join(FLAGS.folder, f"{name}.hlo")
        pathlib.Path(path).write_bytes(program(stage="hlo_serialized"))
        logging.info("Wrote %s.", path)


if __name__ == "__main__":
    define_flags()
    flags.mark_flag_as_required("folder")
    app.run(main)
