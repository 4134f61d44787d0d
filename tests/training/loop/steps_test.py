"""The ways of computing an update, on two devices as on one."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from data.records.length_batches import trimmed_lengths
from modeling import PretrainingModel, checkpoints
from tests.support import rounding
from tests.support.small_model import BATCH, SMALL
from tests.training.finetuning_support import on_devices
from tests.training.support import (
    Sgd,
    assert_losses_near,
    assert_near_weights,
    first_model,
    golden_run,
    sgd_by_hand,
    sgd_run,
    steps_of,
)
from training.config.run_options import TrainOptions
from training.devices import kinds
from training.devices.strategy import create_strategy
from training.loop.optimizers import AdamWeightDecay
from training.loop.steps import with_fusion


def step_in_packs(devices, model, limit):
    """Bytes of each pack of gradients up to a limit, and the new weights."""
    kinds.CPU = kinds.CPU._replace(bytes_per_pack=limit)
    with devices.scope():
        steps = steps_of(model, num_warmup_steps=0, fuse=False)
    before = {name: x.numpy() for name, x in steps.weights.items()}
    batch = {name: tf.constant(x) for name, x in BATCH.items()}

    @tf.function(autograph=False)
    def step():
        arguments = batch, tf.constant(1, tf.int64), tf.constant(1.0)
        return devices.run(steps._replica_step, args=arguments)

    sizes = [
        4 * op.inputs[0].shape.num_elements()
        for op in step.get_concrete_function().graph.get_operations()
        if op.type.startswith("CollectiveReduce")
    ]
    step()
    after = {name: x.numpy() for name, x in steps.weights.items()}
    for name, variable in steps.weights.items():
        variable.assign(before[name])
    return sizes, after


def packs_on(goldens, folder, device):
    """Gradients all together and in packs of 10 kB; if both step alike."""
    del goldens, folder
    keras.utils.set_random_seed(1)
    devices = create_strategy(device)
    with devices.scope():
        model = PretrainingModel(
            dataclasses.replace(SMALL, intermediate_size=64)
        )
    together, expected = step_in_packs(devices, model, 0)
    packs, found = step_in_packs(devices, model, 10_000)
    equal = [np.array_equal(found[name], expected[name]) for name in found]
    return together, packs, all(equal)


@pytest.mark.all
def test_gradients_travel_in_packs_and_keep_their_values(goldens, tmp_path):
    together, packs, alike = on_devices(2, packs_on, goldens, tmp_path)
    assert alike
    # On each of two devices: the divisors of the losses, and the gradients.
    assert len(together) == 2 * 2
    assert sum(packs) == sum(together)
    # A pack is closed when it is larger than the limit. The largest variable is
    # a kernel [16, 64] of float32.
    largest = 4 * 16 * 64
    assert max(packs) <= 10_000 + largest
    assert len(packs) >= 2 * (1 + max(together) // (10_000 + largest))


def steps_on(goldens, folder, device):
    """What several trainings give: losses, scales and weights."""
    strategy = create_strategy(device)
    assert strategy.num_replicas_in_sync == 2
    with strategy.scope():
        lamb, weights = golden_run(
            goldens,
            folder / "lamb",
            num_train_steps=20,
            optimizer="lamb",
            gradient_accumulation_steps=2,
            gradient_checkpointing=True,
        )
        half, _ = golden_run(
            goldens, folder / "half", dtype="mixed_float16", stop_at_step=20
        )
        sgd_micro = sgd_run(goldens, accumulation=2)
        tagging = sgd_run(goldens, rule=AdamWeightDecay, kind="tagging")
    saved = checkpoints.Checkpoint(str(folder / "half/model.ckpt-20"))
    scale = "loss_scale", "loss_scale_good_steps"
    trained = {"lamb": weights, "sgd_micro": sgd_micro, "tagging": tagging}
    return {
        "lamb": {name: x.tolist() for name, x in lamb.items()},
        "float16": half["loss"].tolist(),
        "loss_scale": [float(saved.read(name)) for name in scale],
        "weights": {
            run: {name: x.tolist() for name, x in values.items()}
            for run, values in trained.items()
        },
    }


@pytest.fixture(scope="module")
def two_devices(goldens, tmp_path_factory):
    return on_devices(2, steps_on, goldens, tmp_path_factory.mktemp("two"))


@pytest.mark.all
def test_lamb_with_micro_batches_and_recomputation_takes_the_same_steps(
    goldens, tmp_path, two_devices
):
    one, plain = golden_run(
        goldens, tmp_path, num_train_steps=20, optimizer="lamb"
    )
    two = two_devices["lamb"]
    rounding.assert_equal(two["loss"], one["loss"])
    np.testing.assert_allclose(
        two["gradient_norm"], one["gradient_norm"], rtol=rounding.TRAINED_NORM
    )
    assert_near_weights(two_devices["weights"]["lamb"], plain, rtol=0)


@pytest.mark.all
def test_float16_on_two_devices_stays_near_float32(
    goldens, tmp_path, two_devices
):
    exact, _ = golden_run(goldens, tmp_path, stop_at_step=20)
    losses = two_devices["float16"]
    assert len(losses) == 20
    assert_losses_near(losses, exact["loss"], "float16", num_layers=1)
    # An update counts once, not once a device.
    assert two_devices["loss_scale"] == [32768, 20]


@pytest.mark.all
def test_another_update_rule_gets_the_gradients_of_looked_up_rows(
    goldens, two_devices
):
    by_hand = sgd_by_hand(goldens)
    on_two = two_devices["weights"]["sgd_micro"]
    for weights in sgd_run(goldens), sgd_run(goldens, accumulation=2), on_two:
        assert_near_weights(weights, by_hand, atol=rounding.ONE_SUM, rtol=0)


def assert_pooler_stays(goldens, weights):
    """The pooler, which tagging does not read, and nothing else."""
    model, _ = first_model(goldens, "tagging")
    for name, variable in checkpoints.variables_by_name(model.layers).items():
        if "self/key/bias" in name:
            continue  # a gradient of 0 except for rounding
        same = np.array_equal(weights[name], variable)
        assert same == ("pooler" in name), name


@pytest.mark.all
# With rows of gradients, as LAMB, and with dense ones.
@pytest.mark.parametrize("rule", [AdamWeightDecay, Sgd])
def test_weights_that_the_loss_does_not_read_stay_as_they_are(goldens, rule):
    # The original's questions do not read the pooler: it made no slots there.
    golden = checkpoints.open_checkpoint(str(goldens / "squad/finetuned_v1.1"))
    assert "bert/pooler/dense/kernel" in golden.shapes
    assert "bert/pooler/dense/kernel/adam_m" not in golden.shapes
    assert_pooler_stays(goldens, sgd_run(goldens, 2, rule=rule, kind="tagging"))


@pytest.mark.all
def test_they_stay_on_two_devices_too(goldens, two_devices):
    assert_pooler_stays(goldens, two_devices["weights"]["tagging"])


def is_compiled(num_steps, trims=False, **options):
    """Whether a training of a model of 6 layers of 384 is compiled."""
    config = dataclasses.replace(SMALL, num_hidden_layers=6, hidden_size=384)
    options = TrainOptions(
        output_dir="out",
        num_train_steps=num_steps,
        train_batch_size=32,
        **options,
    )
    return with_fusion(options, config, seq_length=128, trims=trims).fuse


def test_what_is_compiled_is_decided_by_the_length_of_training():
    # One length: 2e8 / (32 * 128 * 6 * 384) = 21.2 steps.
    assert is_compiled(21) is False
    assert is_compiled(22) is True
    assert is_compiled(21, num_train_minutes=1.0) is True
    assert is_compiled(21, fuse=True) is True
    assert is_compiled(22, fuse=False) is False
    # Several lengths, half as long: twice as many for each.
    most = int(2 * 21.193 * len(trimmed_lengths(128)))
    assert not is_compiled(most, trims=True)
    assert is_compiled(most + 1, trims=True)
