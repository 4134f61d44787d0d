"""Every kernel against its plain form: the same values and gradients."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from modeling import TaskModel, kernels, layers
from modeling.kernels import Form, block, seeds, vocabulary
from tests.support import rounding
from tests.support.small_model import SMALL


def normal(*shape, dtype=tf.float32):
    return tf.cast(tf.random.stateless_normal(shape, [3, sum(shape)]), dtype)


def hidden(*shape):
    """What is added to attention scores: padding, and a random mask."""
    seen = tf.sequence_mask([7, 1, 4], 7)[:, tf.newaxis, tf.newaxis]
    seen &= normal(*shape) > -1
    seen |= tf.range(shape[-1]) == 0  # each query has a key
    return tf.where(seen, 0.0, -10000.0)


def norm_of(**options):
    return functools.partial(
        block.layer_norm, epsilon=layers.LayerNorm.EPSILON, **options
    )


def drop_at(rate, seed):
    def drop(x):
        draws = seeds.dropout_draws(x, tf.constant(seed), rate)
        return block.drop(x, draws, rate=rate)

    return drop


def attended(function, scores):
    draws = seeds.dropout_draws(scores, tf.constant([3, 4]), 0.2)
    return function(scores, hidden(3, 2, 7, 7), draws, rate=0.2)


class Case(NamedTuple):
    """A kernel and its arguments.

    Attributes:
      function: from tensors to a float tensor.
      arguments: float32; those of `x` are rounded to the compute dtype, the
        parameters after them stay float32.
      num_inputs: how many arguments are rounded.
      num_roundings: in 16 bits, one after the other, forward or backward.
      scale: of what is rounded; None = that of the result.
    """

    function: Callable
    arguments: tuple
    num_inputs: int
    num_roundings: int
    scale: float | None = None


ROWS = normal(40, 16)
PARAMETERS = 1 + normal(16), normal(1, 16)[0]
LABELS = tf.range(40) % 31
# gelu has 9 operations in 16 bits and as many for its gradient. A layer norm is
# in float32; oneDNN's form rounds its result, gamma, beta, product and sum.
CASES = {
    **{
        f"activate {name}": Case(
            functools.partial(block.activate, name=name), (ROWS,), 1, count
        )
        for name, count in (
            ("gelu", 18),
            ("gelu_exact", 18),
            ("relu", 2),
            ("tanh", 5),
            ("linear", 1),
        )
    },
    "drop": Case(drop_at(0.1, [1, 2]), (normal(3, 7, 5),), 1, 3),
    "layer_norm": Case(norm_of(), (ROWS, *PARAMETERS), 1, 6),
    "layer_norm of a sum": Case(
        lambda x, residual, *parameters: norm_of(residual=residual)(
            x, *parameters
        ),
        (ROWS, ROWS[::-1], *PARAMETERS),
        2,
        7,
    ),
    "layer_norm of a sum after dropout": Case(
        lambda x, residual, *parameters: norm_of(
            residual=residual,
            rate=0.3,
            draws=seeds.dropout_draws(x, tf.constant([5, 6]), 0.3),
        )(x, *parameters),
        (ROWS, ROWS[::-1], *PARAMETERS),
        2,
        10,
    ),
    "add_bias": Case(block.add_bias, (ROWS, PARAMETERS[0]), 2, 3),
    "swap_heads": Case(block.swap_heads, (normal(3, 7, 2, 16),), 1, 1),
    "softmax": Case(
        block.softmax, (normal(3, 2, 7, 7) + hidden(3, 2, 7, 7),), 1, 5
    ),
    "attention_probabilities": Case(
        lambda scores: attended(block.attention_probabilities, scores)[1],
        (normal(3, 2, 7, 7),),
        1,
        7,
    ),
    "dropped_softmax": Case(
        lambda scores: attended(block.dropped_softmax, scores),
        (normal(3, 2, 7, 7),),
        1,
        7,
    ),
    "vocabulary_logits": Case(
        vocabulary.vocabulary_logits, (ROWS, normal(31, 16), normal(31)), 1, 5
    ),
    # Logits are rounded: up to 4 deviations of sqrt(16) and the bias.
    "vocabulary_loss": Case(
        lambda *arguments: vocabulary.vocabulary_loss(*arguments, LABELS)[0],
        (ROWS, normal(31, 16), normal(31)),
        1,
        5,
        4.0,
    ),
}
# In float32 each term of a sum is rounded: sums over 16 units forward, 31 words
# of the vocabulary, and 40 rows backward. Two forms are compared.
LONGEST_PATH = 2 * (16 + 31 + 40)
FORMS_WITHOUT_GRADIENT = (Form.KERNELS, Form.SERVED)


def arguments_of(case, dtype):
    inputs = case.arguments[: case.num_inputs]
    parameters = case.arguments[case.num_inputs :]
    return (*(tf.cast(x, dtype) for x in inputs), *parameters)


def run(case, dtype, form):
    """Values, and gradients of a weighted sum unless the form has none."""
    arguments = arguments_of(case, dtype)

    # As in training and prediction, the number of rows is not static.
    @tf.function(
        input_signature=[
            tf.TensorSpec(
                [None, *x.shape[1:]] if x.shape.rank > 1 else x.shape, x.dtype
            )
            for x in arguments
        ]
    )
    def step(*arguments):
        with kernels.form(form):
            with tf.GradientTape() as tape:
                tape.watch(arguments)
                y = tf.cast(case.function(*arguments), tf.float32)
                weights = tf.cos(tf.cast(tf.range(tf.size(y)), tf.float32))
                total = tf.reduce_sum(tf.reshape(y, [-1]) * weights)
            if form in FORMS_WITHOUT_GRADIENT:
                return [y]
            return [y, *tape.gradient(total, arguments)]

    return [tf.cast(x, tf.float32).numpy() for x in step(*arguments)]


@functools.cache
def plain_values(name, dtype):
    """Those of the plain form in float32, from arguments rounded to `dtype`."""
    case = CASES[name]
    rounded = [tf.cast(x, tf.float32) for x in arguments_of(case, dtype)]
    return run(case._replace(arguments=rounded), "float32", Form.PLAIN)


def test_every_kernel_has_a_case():
    public = {
        name
        for module in (block, vocabulary)
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }
    switches = {"current", "form", "fused"}
    # The same in every form; see vocabulary_loss_test.py.
    parts = {"vocabulary_loss_in_parts"}
    assert {name.split()[0] for name in CASES} == public - switches - parts


@pytest.mark.parametrize("form", [f for f in Form if f is not Form.PLAIN])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_equals_its_plain_form(name, dtype, form):
    case = CASES[name]
    found = run(case, dtype, form)
    wanted = plain_values(name, dtype)[: len(found)]
    for ours, plain in zip(found, wanted, strict=True):
        scale = case.scale or rounding.root_mean_square(plain)
        if plain.ndim == 1:  # a sum of rounded rows, as large as cosines
            scale += np.sqrt(len(ROWS) / 2)
        count = case.num_roundings
        if dtype == "float32":
            count = LONGEST_PATH
        rounding.assert_near(ours, plain, dtype, count, scale)


def graph_of(case, form):
    @tf.function
    def step(*arguments):
        with kernels.form(form):
            return case.function(*arguments)

    return step.get_concrete_function(*case.arguments).graph


@pytest.mark.parametrize(
    "name", ["activate gelu", "drop", "dropped_softmax", "layer_norm of a sum"]
)
def test_the_compiled_form_is_compiled(name):
    operations = graph_of(CASES[name], Form.COMPILED).get_operations()
    assert any("PartitionedCall" in op.type for op in operations)


def test_on_a_gpu_attention_is_compiled_from_scores_to_dropout(monkeypatch):
    case = CASES["attention_probabilities"]

    def operations():
        kept = [graph_of(case, Form.COMPILED).outputs[0].op]
        found = set()
        while kept:
            found.add(operation := kept.pop())
            kept += [x.op for x in operation.inputs if x.op not in found]
        return {operation.type for operation in found}

    # Only what the probabilities after dropout need is computed.
    assert "Softmax" in operations()
    monkeypatch.setattr(block, "has_gpu", lambda: True)
    assert "Softmax" not in operations()
    # The values are those of any device.
    with kernels.form(Form.COMPILED):
        found = case.function(*case.arguments)
    rounding.assert_equal(found, run(case, "float32", Form.PLAIN)[0])


def test_compiled_gelu_in_bfloat16_is_nearer_to_float32():
    case = CASES["activate gelu"]._replace(arguments=(normal(200, 24),))
    truth = run(case, "float32", Form.PLAIN)[0]
    errors = [
        np.mean(np.abs(run(case, "bfloat16", form)[0] - truth))
        for form in (Form.COMPILED, Form.PLAIN)
    ]
    # Half a unit in the last place of 8 bits is 0.002 of numbers near 1.
    assert errors[0] < 0.004
    assert errors[0] <= errors[1]


def test_a_form_ends_with_its_scope():
    assert kernels.current() is Form.STANDARD
    with kernels.form(Form.KERNELS):
        with pytest.raises(KeyError), kernels.form(Form.COMPILED):
            assert kernels.current() is Form.COMPILED
            raise KeyError
        assert kernels.current() is Form.KERNELS
    assert kernels.current() is Form.STANDARD


@pytest.fixture(scope="module")
def config():
    return dataclasses.replace(SMALL, hidden_size=32, num_hidden_layers=2)


def batch_of(lengths):
    ids = tf.random.stateless_uniform(
        [len(lengths), 11], [1, 2], 0, 30, tf.int32
    )
    mask = tf.sequence_mask(lengths, 11, tf.int32)
    return {"input_ids": ids, "input_mask": mask, "segment_ids": ids % 2}


@pytest.mark.parametrize("kind", ["classification", "tagging"])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_predictions_in_kernels_are_the_plain_ones(config, kind, dtype):
    model = TaskModel(config, kind, 3, dtype=dtype)
    for layer in model.layers:
        for variable in layer.weights:
            variable.assign(variable + 0.2 * normal(*variable.shape))
    batch = batch_of([11, 1, 7, 4, 10])
    # As batches of predictions come: B and S differ.
    signature = [dict.fromkeys(batch, tf.TensorSpec([None, None], tf.int32))]
    probabilities = {}
    for on in (True, False):

        @tf.function(input_signature=signature)
        def predict(batch, on=on):
            with kernels.form(Form.KERNELS if on else Form.PLAIN):
                return model.predict(batch)

        graph = predict.get_concrete_function().graph
        kinds = [op.type for op in graph.get_operations()]
        assert any("FusedBatchNorm" in kind for kind in kinds) == on
        probabilities[on] = predict(batch).numpy()
    if dtype == "float32":  # sums in another order
        rounding.assert_equal(probabilities[True], probabilities[False])
        return
    # Both are rounded. A softmax makes half of its logits' error at most.
    num_roundings = rounding.EMBEDDINGS + rounding.DENSE + rounding.POOLER
    num_roundings += rounding.BLOCK * config.num_hidden_layers
    scale = rounding.root_mean_square(model.logits(batch)) / 2
    arithmetic = "bfloat16", 2 * num_roundings
    rounding.assert_near(
        probabilities[True], probabilities[False], *arithmetic, scale
    )
    spread = probabilities[False].std()
    assert spread > 4 * rounding.deviation(scale, *arithmetic)


@pytest.mark.parametrize(
    # Heads of 16 and of 2 numbers: of 2 bytes each, two do not make 8.
    ("dtype", "num_heads", "is_moved_by_eight"),
    [
        ("float32", 2, True),
        ("float32", 16, True),
        ("mixed_bfloat16", 2, True),
        ("mixed_bfloat16", 16, False),
        ("mixed_float16", 2, True),
    ],
)
def test_a_served_model_moves_eight_bytes_at_once_and_answers_alike(
    config, dtype, num_heads, is_moved_by_eight
):
    config = dataclasses.replace(config, num_attention_heads=num_heads)
    model = TaskModel(config, "classification", 3, dtype=dtype)
    batch = batch_of([9, 1, 4])

    def predict(form):
        with kernels.form(form):
            return model.predict(batch)

    # The same numbers: how they are moved is all that differs.
    np.testing.assert_array_equal(
        predict(Form.SERVED), predict(Form.PLAIN), strict=True
    )
    graph = tf.function(predict).get_concrete_function(Form.SERVED).graph
    moved = [
        op.outputs[0].dtype
        for op in graph.get_operations()
        if op.type == "Transpose"
    ]
    assert len(moved) == 2 * 4
    assert [x.is_complex for x in moved] == [is_moved_by_eight] * 8


def test_a_served_model_says_that_it_has_no_gradient(config):
    model = TaskModel(config, "classification", 3)
    batch = batch_of([9, 1, 4])
    with tf.GradientTape() as tape, kernels.form(Form.SERVED):
        scores = model.predict(batch)
    with pytest.raises(LookupError, match="exported model has no gradient"):
        tape.gradient(scores, [v.value for v in model.bert.trainable_weights])


def test_a_norm_of_static_shape_is_the_plain_one():
    # TensorFlow would simplify oneDNN's form, which is then slower by half.
    graph = graph_of(CASES["layer_norm"], Form.KERNELS)
    assert not any("FusedBatchNorm" in op.type for op in graph.get_operations())
