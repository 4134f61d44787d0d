"""Every layer behaves as Keras's own do; a new layer needs a row in `CASES`.

In the manner of keras-hub's `run_layer_test`.
"""

import dataclasses
import importlib
import inspect
import json
import pkgutil
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import modeling
from modeling import BertModel, layers
from tests.modeling import keras_support
from tests.support import rounding
from tests.support.tiers import rare

H, NUM_CLASSES, WIDTH = keras_support.CONFIG.hidden_size, 3, 5
# Four texts of four wordpieces, and four words: Keras wants one length of the
# first axis of all inputs, whether it is the batch, the time or the vocabulary.
CONFIG = dataclasses.replace(
    keras_support.CONFIG, vocab_size=4, hidden_act="gelu_exact"
)
TWO_BLOCKS = dataclasses.replace(CONFIG, num_hidden_layers=2)
RANDOM = np.random.default_rng(0)
IDS = RANDOM.integers(0, 4, (4, 4)).astype(np.int32)
SEGMENTS = RANDOM.integers(0, 2, (4, 4)).astype(np.int32)
LENGTHS = np.array([4, 1, 3, 2], np.int32)
MASK = (np.arange(4) < LENGTHS[:, np.newaxis]).astype(np.int32)
HIDDEN = RANDOM.normal(size=(4, 4, H)).astype(np.float32)
OTHER = RANDOM.normal(size=(4, 4, H)).astype(np.float32)
TABLE = RANDOM.normal(size=(4, H)).astype(np.float32)


class Case(NamedTuple):
    """How a layer is made and called.

    Attributes:
      num_weights: its variables after the first call.
      inputs: the arguments of a call.
      settings: the arguments of the constructor.
    """

    num_weights: int
    inputs: tuple
    settings: dict[str, Any] = {"config": CONFIG}


SEEDED = {"config": CONFIG, "seed": 7}
CASES = {
    "Attention": Case(10, (HIDDEN, MASK), SEEDED),
    "BertModel": Case(
        23,
        (IDS, MASK, SEGMENTS),
        SEEDED | {"use_one_hot_embeddings": True, "whole_last_layer": True},
    ),
    "BiLSTM": Case(
        12, (HIDDEN, MASK), {"input_size": H, "width": WIDTH, "seed": 7}
    ),
    "BiLSTMLayer": Case(6, (HIDDEN, MASK), {"width": WIDTH}),
    "Dense": Case(
        2, (HIDDEN,), {"units": WIDTH, "stddev": 0.5, "activation": "tanh"}
    ),
    "DiscriminatorPredictions": Case(4, (HIDDEN,)),
    "Embeddings": Case(5, (IDS, SEGMENTS), SEEDED),
    "Encoder": Case(16, (HIDDEN, MASK), SEEDED),
    "GeneratorPredictions": Case(5, (HIDDEN, TABLE)),
    "Intermediate": Case(2, (HIDDEN,)),
    "LayerMix": Case(
        2,
        (HIDDEN, (OTHER, HIDDEN)),
        {"config": TWO_BLOCKS, "mix": "weighted_all"},
    ),
    "LayerNorm": Case(2, (HIDDEN,), {}),
    "LinearOutput": Case(
        2, (HIDDEN,), {"num_classes": NUM_CLASSES, "stddev": 0.5}
    ),
    "MaskedLM": Case(5, (HIDDEN, TABLE)),
    "Pooler": Case(2, (HIDDEN,)),
    "LanguageModelHead": Case(5, (HIDDEN, TABLE)),
    "PretrainingHeads": Case(7, (HIDDEN, HIDDEN[:, 0], TABLE)),
    "ResidualOutput": Case(4, (HIDDEN, OTHER), SEEDED),
    "SelfAttention": Case(6, (HIDDEN, MASK), SEEDED),
    "SpanHead": Case(2, (HIDDEN,), {"hidden_size": H}),
    "TaskOutput": Case(
        2, (HIDDEN,), {"num_classes": NUM_CLASSES, "hidden_size": H}
    ),
    "Transform": Case(4, (HIDDEN,)),
    "TransformerBlock": Case(16, (HIDDEN, MASK), SEEDED),
}
# Layers that are only parts of others; `modeling` gives all the rest.
PARTS = {*"Attention BiLSTMLayer Intermediate ResidualOutput Transform".split()}
# The others are parts of these, so steps and exports have them as well.
COMPILED = {
    *"BertModel BiLSTM DiscriminatorPredictions GeneratorPredictions".split(),
    *"LanguageModelHead LayerMix LinearOutput PretrainingHeads".split(),
    *("SpanHead", "TaskOutput"),
}
DROPS = [name for name in CASES if "seed" in CASES[name].settings]
# Those that Keras can stack: the other arguments have defaults.
STACKED = [
    name
    for name in CASES
    if len(CASES[name].inputs) == 1 or name in {*DROPS} - {"ResidualOutput"}
]
each = pytest.mark.parametrize("name", CASES)


def found_layers():
    """Name -> class of every layer in the files of modeling/."""
    classes = {}
    for info in pkgutil.walk_packages(modeling.__path__, "modeling."):
        module = importlib.import_module(info.name)
        for name, value in inspect.getmembers(module, inspect.isclass):
            is_own = value.__module__ == info.name
            if is_own and issubclass(value, keras.layers.Layer):
                classes[name] = value
    return classes


CLASSES = found_layers()


def make(name, /, **options):
    keras.utils.set_random_seed(1)
    return CLASSES[name](**CASES[name].settings, **options)


def call(layer, inputs, **options):
    """The outputs of a call, in a list."""
    return tf.nest.flatten(layer(*inputs, **options))


def model_of(layer, inputs):
    """A functional model of one layer."""
    symbols = tf.nest.map_structure(
        lambda x: keras.Input(x.shape[1:], dtype=x.dtype.name), inputs
    )
    return keras.Model(tf.nest.flatten(symbols), call(layer, symbols))


def assert_same(got, want):
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_layer_is_in_the_table():
    bases = {"Layer", "DropoutLayer", "IdsLayer"}
    of_strings = {"TextEncoder"}  # text_encoder_test.py has its cases
    assert {*CLASSES} - bases - of_strings == {*CASES}
    classes = {
        name: value
        for name in modeling.__all__
        if inspect.isclass(value := getattr(modeling, name))
    }
    given = {n for n, c in classes.items() if issubclass(c, keras.layers.Layer)}
    assert given - of_strings == {*CASES} - PARTS


@each
def test_a_configuration_gives_the_layer_again(name):
    layer = make(name, dtype="mixed_bfloat16", name="my", trainable=False)
    config = layer.get_config()
    arguments = inspect.signature(type(layer)).parameters.keys()
    assert arguments - {"kwargs"} <= config.keys()
    again = type(layer).from_config(json.loads(json.dumps(config)))
    assert again.get_config() == config
    assert again.name == "my"
    assert not again.trainable
    assert again.compute_dtype == "bfloat16"
    saved = keras.saving.serialize_keras_object(layer)
    assert saved["registered_name"] == f"bert>{name}"
    assert type(keras.saving.deserialize_keras_object(saved)) is CLASSES[name]


@each
@pytest.mark.parametrize("when", ["made", "before"])
def test_frozen_means_frozen(name, when):
    layer = make(name, trainable=when != "made")
    if when == "before":
        layer.trainable = False
    model, count = model_of(layer, CASES[name].inputs), CASES[name].num_weights
    # As it was made; then thawed and frozen again.
    for trainable in (False, True, False):
        if trainable != layer.trainable:
            layer.trainable = trainable
        assert len(model.trainable_variables) == count * trainable
        parts = {part.trainable for part in layer._flatten_layers()}
        assert parts == {trainable}


def test_a_configuration_keeps_which_parts_are_frozen():
    bert = make("BertModel")
    bert.encoder.blocks[0].trainable = False
    bert.encoder.blocks[0].attention.trainable = True
    frozen = [v.path for v in bert.weights if not v.trainable]
    assert len(frozen) == 6  # two dense layers and a layer norm
    again = BertModel.from_config(json.loads(json.dumps(bert.get_config())))
    assert [v.path for v in again.weights if not v.trainable] == frozen
    assert again.get_config() == bert.get_config()


@each
def test_tensors_symbols_and_lists_give_the_same(name):
    layer, case = make(name), CASES[name]
    model = model_of(layer, case.inputs)
    assert len(layer.weights) == case.num_weights
    assert len(model.weights) == case.num_weights
    want = call(layer, case.inputs)
    for found, symbol in zip(want, model.outputs, strict=True):
        assert symbol.dtype == found.dtype
        assert tf.TensorShape(symbol.shape).is_compatible_with(found.shape)
    assert_same(call(model, [tf.nest.flatten(case.inputs)]), want)
    tensors = tf.nest.map_structure(tf.constant, case.inputs)
    assert_same(call(layer, tensors), want)
    lists = tf.nest.map_structure(np.ndarray.tolist, case.inputs)
    assert_same(call(layer, lists), want)


def test_a_compiled_layer_has_every_other_one_within():
    inner = {
        type(part).__name__
        for name in COMPILED
        for part in make(name)._flatten_layers()
    }
    assert inner >= {*CASES}


@pytest.mark.parametrize(
    "name", [rare(n) if n == "BiLSTM" else n for n in sorted(COMPILED)]
)
@pytest.mark.parametrize("jit_compile", [False, rare(True)])
@pytest.mark.filterwarnings("ignore:Gradients do not exist.*recurrent_kernel")
def test_a_step_changes_every_weight(name, jit_compile):
    layer, case = make(name), CASES[name]
    model = model_of(layer, case.inputs)
    model.compile(
        optimizer=keras.optimizers.SGD(1.0),
        loss=["mse"] * len(model.outputs),
        jit_compile=jit_compile,
    )
    before = {v.path: v.numpy() for v in model.trainable_variables}
    wanted = [
        RANDOM.normal(size=output.shape).astype(np.float32)
        for output in call(layer, case.inputs)
    ]
    model.fit(tf.nest.flatten(case.inputs), wanted, batch_size=4, verbose=0)
    for variable in model.trainable_variables:
        same = np.array_equal(variable.numpy(), before[variable.path])
        assert not same, variable.path
    assert all(np.isfinite(v.numpy()).all() for v in model.trainable_variables)


@each
@pytest.mark.parametrize("policy", ["mixed_bfloat16", rare("mixed_float16")])
def test_weights_are_float32_under_every_policy(name, policy):
    layer = make(name, dtype=policy)
    narrow = policy.removeprefix("mixed_")
    assert layer.compute_dtype == narrow
    for output in call(layer, CASES[name].inputs):
        assert output.dtype.name in ("float32", narrow)
        assert np.isfinite(tf.cast(output, tf.float32)).all()
    assert {v.dtype for v in layer.weights} == {"float32"}
    for inner in layer._flatten_layers():
        # An LSTM computes in float32, see `BiLSTMLayer`.
        is_lstm = isinstance(inner, keras.layers.RNN | keras.layers.LSTMCell)
        assert inner.compute_dtype == ("float32" if is_lstm else narrow)


@pytest.mark.parametrize("name", DROPS)
def test_training_means_dropout(name):
    layer, inputs = make(name), CASES[name].inputs
    plain = call(layer, inputs)
    assert_same(call(layer, inputs, training=False), plain)
    drops = [call(layer, inputs, training=True) for _ in range(2)]
    assert not np.array_equal(drops[0][0], plain[0])
    assert not np.array_equal(drops[0][0], drops[1][0])
    again = type(layer).from_config(layer.get_config())
    call(again, inputs)
    again.set_weights(layer.get_weights())
    for drop in drops:
        assert_same(call(again, inputs, training=True), drop)
    state = layer.seed_generator.state.numpy()
    seeded = [
        call(layer, inputs, training=training, dropout_seed=tf.constant([1, 2]))
        for training in (True, False, None)
    ]
    assert not np.array_equal(seeded[0][0], plain[0])
    for other in seeded[1:]:
        assert_same(other, seeded[0])
    np.testing.assert_array_equal(layer.seed_generator.state, state)


@each
def test_files_give_the_layer_again(name, tmp_path):
    inputs = tf.nest.flatten(CASES[name].inputs)
    model = model_of(make(name), CASES[name].inputs)
    want = call(model, [inputs])

    model.save(tmp_path / "model.keras")
    other = keras.models.load_model(tmp_path / "model.keras")
    assert_same(call(other, [inputs]), want)

    model.save_weights(tmp_path / "a.weights.h5")
    for variable in other.trainable_variables:
        variable.assign(variable + 1.0)
    other.load_weights(tmp_path / "a.weights.h5")
    assert_same(call(other, [inputs]), want)


@pytest.mark.all
@pytest.mark.parametrize("name", sorted(COMPILED))
def test_an_export_gives_what_the_layer_gives(name, tmp_path):
    inputs = tf.nest.flatten(CASES[name].inputs)
    model = model_of(make(name), CASES[name].inputs)
    want = call(model, [inputs])
    model.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    served = exported.signatures["serving_default"](
        **{
            symbol.name: tf.constant(x)
            for symbol, x in zip(model.inputs, inputs, strict=True)
        }
    )
    assert len(served) == len(want)
    for i, expected in enumerate(want):
        rounding.assert_equal(served[f"output_{i}"], expected)


@pytest.mark.parametrize("name", STACKED)
def test_keras_stacks_it(name):
    layer = make(name)
    x = CASES[name].inputs[0]
    model = keras.Sequential(
        [keras.Input(x.shape[1:], dtype=x.dtype.name), layer]
    )
    assert_same(call(model, [x]), call(layer, [x]))


def test_layers_in_a_row_drop_differently_as_keras_s_random_seed_says():
    def seeds(random_seed):
        keras.utils.set_random_seed(random_seed)
        made = [layers.DropoutLayer().seed_generator for _ in range(3)]
        return [generator.state.numpy()[0] for generator in made]

    assert len({*seeds(1)}) == 3
    assert seeds(1) == seeds(1)
    assert not {*seeds(1)} & {*seeds(2)}


def test_seeds_of_dropout_leave_the_initial_weights_as_they_are():
    drawn = []
    for first in (layers.Layer, layers.DropoutLayer):
        keras.utils.set_random_seed(1)
        first()
        drawn.append(keras.initializers.RandomNormal()([3]))
    np.testing.assert_array_equal(*drawn)
