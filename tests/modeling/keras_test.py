"""BertModel as a layer of a Keras model."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import BertConfig, BertModel, checkpoints
from tests import rounding

CONFIG = BertConfig(
    vocab_size=11,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    hidden_dropout_prob=0.5,
    attention_probs_dropout_prob=0.5,
)
IDS = np.random.default_rng(0).integers(0, 11, (8, 6)).astype(np.int32)


class Pooled(keras.Model):
    """Answers with the pooled output of a `BertModel`."""

    def __init__(self, **options):
        super().__init__()
        self.bert = BertModel(CONFIG, **options)
        self.built = True

    def call(self, ids, training=None):
        """Maps ids [B, S] to [B, H]."""
        # With several devices Keras builds the model with float32.
        ids = tf.cast(ids, tf.int32)
        return self.bert(ids, training=training).pooled_output


def functional():
    ids = keras.Input([6], dtype="int32")
    return keras.Model(ids, BertModel(CONFIG)(ids).pooled_output)


def bert_of(model):
    return next(x for x in model.layers if isinstance(x, BertModel))


def outputs_in_fit(model, **options):
    """The mean output in two epochs of one batch, at rate 0, and after it."""
    model.compile(
        optimizer=keras.optimizers.SGD(0.0),
        loss=lambda _, found: tf.reduce_mean(found, axis=-1),
        **options,
    )
    history = model.fit(
        IDS, np.zeros(8), batch_size=8, epochs=2, shuffle=False, verbose=0
    )
    outputs = history.history["loss"]
    evaluated = model.evaluate(IDS, np.zeros(8), batch_size=8, verbose=0)
    return outputs, evaluated


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (Pooled, {}),
        (functional, {}),
        (Pooled, {"jit_compile": True}),
        (Pooled, {"run_eagerly": True}),
        (lambda: Pooled(gradient_checkpointing=True), {}),
    ],
    ids=["subclass", "functional", "xla", "eager", "recomputed"],
)
def test_fit_applies_dropout_and_evaluate_does_not(make, options):
    keras.utils.set_random_seed(1)
    model = make()
    (first, second), evaluated = outputs_in_fit(model, **options)
    plain = float(np.mean(bert_of(model)(IDS).pooled_output))
    assert evaluated == pytest.approx(plain, abs=rounding.ONE_SUM)
    assert abs(first - plain) > 1e-3
    assert abs(second - plain) > 1e-3
    assert abs(first - second) > 1e-5


def test_the_random_seed_of_keras_repeats_a_fit():
    found = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(3)  # of the weights
        model = Pooled()
        keras.utils.set_random_seed(seed)
        found.append(outputs_in_fit(model)[0])
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_a_seed_of_ones_own_is_used_as_it_is():
    bert = BertModel(CONFIG)
    seed = tf.constant([1, 2])
    for training in (True, False):
        np.testing.assert_array_equal(
            bert(IDS, dropout_seed=seed, training=training).pooled_output,
            bert(IDS, dropout_seed=seed).pooled_output,
        )


def test_dropout_in_fit_adds_no_variable(tmp_path):
    keras.utils.set_random_seed(1)
    model = Pooled()
    outputs_in_fit(model)
    names = {variable.path for variable in model.bert.variables}
    assert names == set(checkpoints.variables_by_name([model.bert]))
    assert not [name for name in names if "seed" in name]
    module = tf.Module()
    module.bert = model.bert
    module.serve = tf.function(
        lambda ids: model.bert(ids).pooled_output,
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
    )
    tf.saved_model.save(module, str(tmp_path))
    saved = tf.train.list_variables(str(tmp_path / "variables/variables"))
    assert not [name for name, _ in saved if "seed" in name]
    # The initial weights of what is made afterwards do not depend on it.
    second = Pooled().bert.get_embedding_table().numpy()
    keras.utils.set_random_seed(1)
    Pooled()
    np.testing.assert_array_equal(
        Pooled().bert.get_embedding_table().numpy(), second
    )


SCRIPT = """
import keras, numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tests.modeling import keras_test
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    keras.utils.set_random_seed(1)
    model = keras_test.Pooled()
    (first, second), evaluated = keras_test.outputs_in_fit(model)
assert min(abs(first - second), abs(first - evaluated)) > 1e-5
"""


def test_fit_applies_dropout_on_two_devices(pytestconfig):
    # In a process of its own: devices are given before TensorFlow computes.
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=pytestconfig.rootpath,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
