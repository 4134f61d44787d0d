r"""Compiles the step of every program for a Cloud TPU, without a TPU.

    python3 -m venv jax && jax/bin/pip install 'jax[tpu]==0.10.2'
    .venv/bin/python tests/by_hand/tpu_compiler.py --folder=/tmp/steps
    jax/bin/python tests/by_hand/tpu_compiler_theirs.py /tmp/steps v5e:2x2

The first command writes each step as the program that TensorFlow gives to XLA.
The second imports nothing of this project. It compiles each program with libtpu
and prints the time and the memory that one core needs. The flags set the model
and the batch of the pretraining step; the other steps are small.
"""

import os
import pathlib
import sys

import tensorflow as tf
from absl import app, flags, logging

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from data.finetuning import feature_options  # noqa: E402
from data.records.feature_spec import pretraining_features  # noqa: E402
from data.squad import windows  # noqa: E402
from modeling import (  # noqa: E402
    BertConfig,
    BertModel,
    PretrainingModel,
    SpanModel,
    TaskModel,
)
from modeling.kernels import vocabulary  # noqa: E402
from tests.training.support import steps_of  # noqa: E402
from training.inference import OutputCollector  # noqa: E402
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
ROWS = 8


def batch_of(specs, rows, **others):
    """A batch of zeros, because a compiler looks at shapes alone."""
    batch = {
        spec.name: tf.zeros(
            [rows, spec.length],
            tf.float32 if spec.dtype == "float32" else tf.int32,
        )
        for spec in specs
    }
    return batch | {
        name: tf.zeros([rows, length], tf.int32)
        for name, length in others.items()
    }


def update_of(model, batch, count):
    """A training step of `count` micro-batches, and its arguments."""
    made = steps_of(
        model,
        train_batch_size=len(batch["input_ids"]),
        gradient_accumulation_steps=count,
    )
    return made._replica_step, batch, tf.constant(1, tf.int64), tf.constant(1.0)


def pretraining():
    """An update of run_pretraining.py."""
    config = SMALL
    if FLAGS.bert_config_file:
        config = BertConfig.from_json_file(FLAGS.bert_config_file)
    specs = pretraining_features(128, 20)
    model = PretrainingModel(
        config, dtype="mixed_bfloat16", use_one_hot_embeddings=True
    )
    return update_of(model, batch_of(specs, FLAGS.batch_size), 1)


def task(kind, trains, **options):
    """An update of run_classifier.py, or its answers."""
    model = TaskModel(
        SMALL, kind, NUM_LABELS, use_one_hot_embeddings=True, **options
    )
    specs = feature_options.feature_specs(kind, 32, NUM_LABELS)
    if trains:
        return update_of(model, batch_of(specs, ROWS), 2)
    return OutputCollector(model)._replica_step, batch_of(
        specs, ROWS, example_index=1
    )


def span(trains):
    """An update of run_squad.py, or its answers."""
    model = SpanModel(SMALL, use_one_hot_embeddings=True)
    batch = batch_of(windows.feature_specs(128, trains), ROWS)
    del batch["unique_ids"]
    if trains:
        return update_of(model, batch, 2)
    batch |= batch_of((), ROWS, example_index=1, is_real_example=1)
    return OutputCollector(model)._replica_step, batch


def vectors():
    """A batch of extract_features.py."""
    extractor = Extractor(
        BertModel(SMALL, use_one_hot_embeddings=True),
        VectorOptions(layers=(-1, -2), whole_words=True),
        max_seq_length=128,
        batch_size=ROWS,
    )
    names = ("input_ids", "input_mask", "segment_ids", "word_ids")
    return extractor._replica_step, batch_of(
        (), ROWS, **dict.fromkeys(names, 128)
    )


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


def main(_):
    """Writes a file for each step."""
    # As on a TPU: each device updates its own copy of the weights.
    tf.distribute.TPUStrategy = tf.distribute.Strategy
    vocabulary.on_tpu = lambda: True
    os.makedirs(FLAGS.folder, exist_ok=True)
    for name, make in PROGRAMS.items():
        step, *arguments = make()
        function = tf.function(step, jit_compile=True)
        program = function.experimental_get_compiler_ir(*arguments)
        path = os.path.join(FLAGS.folder, f"{name}.hlo")
        pathlib.Path(path).write_bytes(program(stage="hlo_serialized"))
        logging.info("Wrote %s.", path)


if __name__ == "__main__":
    flags.DEFINE_string("folder", None, "For the programs.", required=True)
    flags.DEFINE_string("bert_config_file", None, "Of pretraining.")
    flags.DEFINE_integer("batch_size", 16, "Of pretraining, on one core.")
    app.run(main)
