"""Every pretraining objective trains as the training loop requires.

An objective is tested as soon as it has a name in `choices.OBJECTIVES`: its
batches follow from what its class says that it reads.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from modeling import checkpoints, objectives
from modeling.choices import OBJECTIVES
from tests.modeling.objectives.conformance_support import (
    draw_by_batch,
    make_batch,
    make_model,
    repeated,
    train_options,
    train_to_end,
    trained,
)
from tests.support import fork_server, rounding
from tests.support.small_model import SMALL
from tests.support.tiers import rare
from training.inference import Evaluator
from training.loop import steps
from training.loop.trainer import Trainer

# Objectives with their own options, where these change the arithmetic.
DRAWN = ("left_to_right", {"num_predicted_positions": 3})
CASES = [*((name, {}) for name in OBJECTIVES), DRAWN]
RARE = (DRAWN, ("left_to_right", {}), ("replaced_tokens", {}))
each_case = pytest.mark.parametrize(("name", "options"), CASES)
each_run = pytest.mark.parametrize(
    ("name", "options"),
    [rare(*case) if case in RARE else case for case in CASES],
)


def loss_and_gradients(model, batch):
    """By name; the metrics as [2]."""
    variables = checkpoints.variables_by_name(model.layers)
    with tf.GradientTape() as tape:
        loss, metrics = model.losses(batch, model.loss_weights(batch))
    gradients = tape.gradient(loss, variables)
    gradients = {
        f"gradient of {name}": tf.convert_to_tensor(gradient).numpy()
        for name, gradient in gradients.items()
        if gradient is not None
    }
    return {"loss": loss} | metrics | gradients


@each_run
def test_it_overfits_a_batch(name, options, tmp_path, monkeypatch):
    # Resumed runs have the compiled update.
    monkeypatch.setattr(steps, "_compiles_update", lambda *_: False)
    model = make_model(name, options)
    if model.draws_inputs:  # too much to learn by heart
        draw_by_batch(model)
    batch = make_batch(objectives.get(name))
    training = steps.TrainSteps(model, train_options(tmp_path, 300))
    arguments = iter(repeated(batch)), tf.constant(1, tf.int64)
    metrics = training.run(*arguments, tf.constant(300))
    before = metrics[0, training.metric_names.index("loss"), 0]
    results = Evaluator(model).evaluate(
        lambda shard: repeated(batch), num_steps=1
    )
    assert results["loss"] < 0.1 * before


@each_run
def test_it_resumes_bit_for_bit(name, options, tmp_path):
    dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    model = make_model(name, options, dataclasses.replace(SMALL, **dropout))
    train = train_options(tmp_path, 4, save_checkpoints_steps=2)
    trainer = Trainer(model, train)
    whole = train_to_end(trainer, name, tmp_path)
    # As if stopped after step 2; what it lacks still has the values of step 4.
    for path in tmp_path.glob("model.ckpt-4.*"):
        path.unlink()
    resumed = train_to_end(trainer, name, tmp_path)
    assert whole.keys() == resumed.keys()
    for variable, value in whole.items():
        np.testing.assert_array_equal(resumed[variable], value, variable)


@each_case
def test_padding_changes_nothing(name, options):
    model = make_model(name, options)
    batch = make_batch(objectives.get(name))
    longer = dict(batch)
    for feature in ("input_ids", "input_mask", "segment_ids"):
        longer[feature] = tf.pad(batch[feature], [[0, 0], [0, 4]])
    # What stands in the padding is not read.
    longer["input_ids"] += (1 - longer["input_mask"]) * 7
    want = loss_and_gradients(model, batch)
    got = loss_and_gradients(model, longer)
    assert got.keys() == want.keys()
    for key, value in want.items():
        rounding.assert_equal(got[key], value, rtol=rounding.EQUAL)


@each_case
def test_parts_of_a_batch_add_up(name, options):
    model = make_model(name, options)
    batch = make_batch(objectives.get(name))
    weights = model.loss_weights(batch)
    parts = [
        {feature: x[start::2] for feature, x in batch.items()}
        for start in (0, 1)
    ]
    for weight in weights:
        np.testing.assert_allclose(
            sum(model.loss_weights(part)[weight] for part in parts),
            weights[weight],
        )
    whole, metrics = model.losses(batch, weights)
    losses, metrics_of = zip(
        *(model.losses(part, weights) for part in parts), strict=True
    )
    np.testing.assert_allclose(sum(losses), whole, rtol=rounding.EQUAL)
    for metric, value in metrics.items():
        np.testing.assert_allclose(
            sum(found[metric] for found in metrics_of),
            value,
            rtol=rounding.EQUAL,
        )


@each_case
def test_bfloat16_follows_float32(name, options):
    batch = make_batch(objectives.get(name))
    want, got = (
        loss_and_gradients(make_model(name, options, dtype=dtype), batch)
        for dtype in ("float32", "mixed_bfloat16")
    )
    assert got.keys() == want.keys()
    # Embeddings, a block, the pooler, the transform with its layer norm, and
    # the logits; forward and back.
    num_roundings = 2 * (
        rounding.EMBEDDINGS
        + rounding.BLOCK
        + rounding.POOLER
        + 2 * rounding.DENSE
        + 1
    )
    values = {
        key: value
        for key, value in want.items()
        if not key.endswith("accuracy")  # ties are decided by rounding
    }
    rounding.assert_all_near(
        {key: got[key] for key in values}, values, "bfloat16", num_roundings
    )


@pytest.mark.all
@each_case  # without dropout only replaced_tokens draws, and DRAWN
def test_xla_draws_what_is_drawn_without_it(name, options):
    model = make_model(name, options)
    batch = make_batch(objectives.get(name))

    def losses(seed):
        loss, metrics = model.losses(batch, model.loss_weights(batch), seed)
        return tf.stack([loss, *(x[0] for x in metrics.values())])

    compute, compiled = (
        tf.function(losses, jit_compile=xla) for xla in (False, True)
    )
    for seed in ([3, 4], [-5, 2**31 - 1]):
        rounding.assert_equal(
            compiled(tf.constant(seed)),
            compute(tf.constant(seed)),
            rtol=rounding.EQUAL,
        )


# In a process of its own: see strategy_test.
SCRIPT = """
import sys
from tests.modeling.objectives.conformance_support import trained
from training.config.run_options import DeviceOptions
from training.devices.strategy import create_strategy
strategy = create_strategy(DeviceOptions(distribution_strategy="mirrored"))
assert strategy.num_replicas_in_sync == 2
out, *names = sys.argv[1:]
for name in names:
    with strategy.scope():
        trained(name, {}, f"{out}/{name}", seeded=False,
                gradient_accumulation_steps=2)
"""


@pytest.fixture(scope="module")
def two_devices(tmp_path_factory):
    """The folder with what two devices have trained."""
    out = tmp_path_factory.mktemp("two")
    fork_server.python("-c", SCRIPT, str(out), *OBJECTIVES, devices=2)
    return out


@pytest.mark.all
@pytest.mark.parametrize("name", OBJECTIVES)
def test_two_devices_and_micro_batches_give_what_one_gives(
    name, two_devices, tmp_path
):
    # With seeds, each device and micro-batch draws its own numbers.
    want = trained(name, {}, tmp_path, seeded=False)
    got = checkpoints.Checkpoint(str(two_devices / name / "model.ckpt-4"))
    assert set(got.shapes) == set(want)
    for variable, value in want.items():
        # Adam divides a gradient that is 0 except for rounding by its size.
        bound = 1e-3 if "/key/bias" in variable else rounding.EQUAL
        np.testing.assert_allclose(
            got.read(variable), value, atol=bound, rtol=0, err_msg=variable
        )
