"""The loop around a TPU's step, and whether bad steps are found at all."""

import re

import pytest
import tensorflow as tf

from data.records import input_pipeline, length_batches
from modeling import BertConfig, PretrainingModel, TaskModel
from tests.support import gpu_support, tpu_support
from tests.support.classifier_support import write_records
from tests.training.finetuning_support import on_devices
from tests.training.support import golden_records, steps_of
from training.devices.strategy import distribute
from training.inference import OutputCollector

pytestmark = pytest.mark.all


def loops_on(goldens, folder, device):
    """Operations and problems of the loops of training and of scoring."""
    del device
    config = BertConfig.from_json_file(str(goldens / "first_layer.json"))
    opened = golden_records(goldens)
    examples = write_records(folder, [5, 16, 9, 3, 12, 7, 4], seq_length=16)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    # On a TPU the update is part of the step.
    tf.distribute.TPUStrategy = tf.distribute.Strategy
    with strategy.scope():
        batches = distribute(
            strategy,
            lambda shard: input_pipeline.training_batches(
                opened, batch_size=8, seed=1, shard=shard
            ),
        )
        model = PretrainingModel(config, use_one_hot_embeddings=True)
        # On a TPU nothing is fused: it compiles the whole step.
        steps = steps_of(model, train_batch_size=8, fuse=False)
        training = steps.run.get_concrete_function(
            iter(batches),
            tf.TensorSpec([], tf.int64),
            tf.TensorSpec([], tf.int32),
            tf.TensorSpec([2]),
        )
        batches = distribute(
            strategy,
            lambda shard: length_batches.all_examples(
                examples, batch_size=4, trim=False, shard=shard
            ),
        )
        scorer = OutputCollector(TaskModel(config, "classification", 2))
        scoring = scorer._step.get_concrete_function(iter(batches))
    return [
        (
            [node.op for node, _ in gpu_support.operations(f)],
            tpu_support.graph_problems(f),
        )
        for f in (training, scoring)
    ]


def test_the_loop_around_the_step_takes_parts_of_one_shape(goldens, tmp_path):
    env = {"TF_ENABLE_ONEDNN_OPTS": "0"}  # a TPU has none of its kernels
    found = on_devices(2, loops_on, goldens, tmp_path, env=env)
    # The host's part: it takes batches, counts steps and keeps their rows, as
    # many as it is told.
    of_host = re.compile(
        r".*: IteratorGetNext is not for a TPU"
        r"|/range: .*|/Identity: Identity gives \(None, 7, 2\)"
    )
    for operations, problems in found:
        assert "IteratorGetNext" in operations
        # As it would be if a part could be missing.
        assert not [name for name in operations if "Optional" in name]
        problems = [x for x in problems if not of_host.fullmatch(x)]
        assert not problems, "\n".join(problems)


def masked(x):
    return tf.reduce_sum(tf.boolean_mask(x, x > 0))


def drawn(x):
    return x + tf.random.uniform(x.shape)


def spelled(x):
    return tf.concat([tf.strings.as_string(x), ["a"]], axis=0)


def nested(x):
    return tf.function(lambda y: y + 1, jit_compile=True)(x)


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (masked, r"Where gives \(None, 1\)"),
        (drawn, "RandomUniform is not for a TPU"),
        (spelled, "has T=string|has dtype=string"),
        (nested, "compiled by itself"),
    ],
)
def test_a_step_that_is_not_for_a_tpu_is_found(step, problem):
    function = tf.function(step).get_concrete_function(tf.TensorSpec([4]))
    problems = tpu_support.graph_problems(function)
    assert any(re.search(problem, x) for x in problems), problems


def test_a_program_of_no_fixed_shape_is_found():
    x = tf.constant([1.0, 0.0, 2.0, 0.0])
    for step, found in ((masked, "dynamic shape"), (drawn, "")):
        function = tf.function(step, jit_compile=True)
        program = function.experimental_get_compiler_ir(x)(stage="hlo")
        problems = tpu_support.program_problems(program)
        assert (found in problems[0]) if found else not problems
