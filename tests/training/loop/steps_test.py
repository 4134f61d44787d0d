"""The ways of computing an update, on two devices as on one."""

import json

import numpy as np
import pytest

from data.records.length_batches import trimmed_lengths
from modeling import BertConfig, checkpoints
from tests.support import fork_server, rounding
from tests.training.support import (
    Sgd,
    assert_losses_near,
    first_model,
    golden_run,
    sgd_by_hand,
    sgd_run,
)
from training.config.run_options import TrainOptions
from training.loop.optimizers import AdamWeightDecay
from training.loop.steps import with_fusion

# In a process of its own: see strategy_test.
SCRIPT = """
import json, pathlib, sys
import numpy as np
goldens, out = map(pathlib.Path, sys.argv[1:])
from modeling import checkpoints
from training.loop.optimizers import AdamWeightDecay
from training.config.run_options import DeviceOptions
from training.devices.strategy import create_strategy
from tests.training.support import golden_run, sgd_run
strategy = create_strategy(DeviceOptions(distribution_strategy="mirrored"))
assert strategy.num_replicas_in_sync == 2
with strategy.scope():
    lamb, weights = golden_run(
        goldens, out / "lamb", num_train_steps=20,
        optimizer="lamb", gradient_accumulation_steps=2,
        gradient_checkpointing=True)
    float16, _ = golden_run(
        goldens, out / "float16", dtype="mixed_float16", stop_at_step=20)
    sgd_micro = sgd_run(goldens, accumulation=2)
    tagging = sgd_run(goldens, rule=AdamWeightDecay, kind="tagging")
for name, found in (("sgd_micro", sgd_micro), ("tagging", tagging)):
    np.savez(out / f"{name}.npz", **{k.replace("/", "|"): v
                                     for k, v in found.items()})
saved = checkpoints.Checkpoint(str(out / "float16" / "model.ckpt-20"))
np.savez(out / "weights.npz", **{k.replace("/", "|"): v
                                 for k, v in weights.items()})
print(json.dumps({
    "lamb": {name: lamb[name].tolist() for name in ("loss", "gradient_norm")},
    "float16": float16["loss"].tolist(),
    "loss_scale": [float(saved.read(name)) for name in
                   ("loss_scale", "loss_scale_good_steps")]}))
"""


# Gradients in packs of 10 kB and all together, on two devices.
PACKS = """
import json, sys
import keras
import numpy as np
import tensorflow as tf
from modeling import BertConfig, PretrainingModel
from tests.support.gpu_support import operations
from training.config.run_options import DeviceOptions, TrainOptions
from training.devices import kinds
from training.devices.strategy import create_strategy
from training.loop.steps import TrainSteps
strategy = create_strategy(DeviceOptions(distribution_strategy="mirrored"))
keras.utils.set_random_seed(1)
config = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=64, max_position_embeddings=8)
ids = tf.constant([[5, 6, 7, 8], [9, 8, 7, 0]])
batch = {
    "input_ids": ids, "input_mask": tf.sign(ids), "segment_ids": ids // 8,
    "masked_lm_positions": ids[:, :1] // 5, "masked_lm_ids": ids[:, 1:2],
    "masked_lm_weights": tf.ones([2, 1]),
    "next_sentence_labels": tf.constant([[1], [0]])}
with strategy.scope():
    model = PretrainingModel(config)

def run(size):
    kinds.CPU = kinds.CPU._replace(bytes_per_pack=size)
    with strategy.scope():
        steps = TrainSteps(model, TrainOptions(
            output_dir="", num_train_steps=9, num_warmup_steps=0, fuse=False))
    before = {k: v.numpy() for k, v in steps.weights.items()}
    @tf.function(autograph=False)
    def step():
        return strategy.run(steps._replica_step, args=(
            batch, tf.constant(1, tf.int64), tf.constant(1.0)))
    graph = step.get_concrete_function()
    sizes = [
        4 * op.inputs[0].shape.num_elements()
        for op in graph.graph.get_operations()
        if op.type.startswith("CollectiveReduce")]
    step()
    after = {k: v.numpy() for k, v in steps.weights.items()}
    for k, v in steps.weights.items():
        v.assign(before[k])
    return sizes, after

together, expected = run(0)
packs, found = run(10_000)
is_equal = all(np.array_equal(expected[k], found[k]) for k in found)
print(json.dumps([together, packs, is_equal]))
"""


@pytest.mark.all
def test_gradients_travel_in_packs_and_keep_their_values():
    done = fork_server.python("-c", PACKS, devices=2)
    together, packs, is_equal = json.loads(done.stdout.splitlines()[-1])
    assert is_equal
    # On each of two devices: the divisors of the losses, and the gradients.
    assert len(together) == 2 * 2
    assert sum(packs) == sum(together)
    # A pack is closed when it is larger than the limit. The largest variable is
    # a kernel [16, 64] of float32.
    largest = 4 * 16 * 64
    assert max(packs) <= 10_000 + largest
    assert len(packs) >= 2 * (1 + max(together) // (10_000 + largest))


@pytest.fixture(scope="module")
def two_devices(goldens, tmp_path_factory):
    out = tmp_path_factory.mktemp("two")
    done = fork_server.python("-c", SCRIPT, goldens, out, devices=2)
    figures = json.loads(done.stdout.splitlines()[-1])
    weights = []
    for name in ("weights", "sgd_micro", "tagging"):
        with np.load(out / f"{name}.npz") as arrays:
            weights.append({k.replace("|", "/"): v for k, v in arrays.items()})
    return figures, *weights


@pytest.mark.all
def test_lamb_with_micro_batches_and_recomputation_takes_the_same_steps(
    goldens, tmp_path, two_devices
):
    figures, weights, *_ = two_devices
    one, plain = golden_run(
        goldens, tmp_path, num_train_steps=20, optimizer="lamb"
    )
    two = figures["lamb"]
    np.testing.assert_allclose(two["loss"], one["loss"], atol=rounding.EQUAL)
    np.testing.assert_allclose(
        two["gradient_norm"], one["gradient_norm"], rtol=rounding.TRAINED_NORM
    )
    for name, value in plain.items():
        np.testing.assert_allclose(
            weights[name], value, atol=rounding.EQUAL, err_msg=name
        )


@pytest.mark.all
def test_float16_on_two_devices_stays_near_float32(
    goldens, tmp_path, two_devices
):
    figures, *_ = two_devices
    exact, _ = golden_run(goldens, tmp_path, stop_at_step=20)
    assert len(figures["float16"]) == 20
    assert_losses_near(
        figures["float16"], exact["loss"], "float16", num_layers=1
    )
    # An update counts once, not once a device.
    assert figures["loss_scale"] == [32768, 20]


def assert_updated_by_hand(goldens, *found):
    for name, value in sgd_by_hand(goldens).items():
        for weights in found:
            # float32 sums in another order.
            np.testing.assert_allclose(
                weights[name],
                value,
                atol=rounding.ONE_SUM,
                rtol=0,
                err_msg=name,
            )


def test_another_update_rule_gets_the_gradients_of_looked_up_rows(goldens):
    found = sgd_run(goldens), sgd_run(goldens, accumulation=2)
    assert_updated_by_hand(goldens, *found)


@pytest.mark.all
def test_another_update_rule_gets_them_on_two_devices(goldens, two_devices):
    assert_updated_by_hand(goldens, two_devices[2])


def assert_pooler_stays(goldens, weights):
    """The pooler, which tagging does not read, and nothing else."""
    model, _ = first_model(goldens, "tagging")
    for name, variable in checkpoints.variables_by_name(model.layers).items():
        if "self/key/bias" in name:
            continue  # a gradient of 0 except for rounding
        same = np.array_equal(weights[name], variable)
        assert same == ("pooler" in name), name


@pytest.mark.parametrize(
    # With rows of gradients, as LAMB, and with dense ones.
    "rule",
    [AdamWeightDecay, pytest.param(Sgd, marks=pytest.mark.all)],
)
def test_weights_that_the_loss_does_not_read_stay_as_they_are(goldens, rule):
    # The original's questions do not read the pooler: it made no slots there.
    golden = checkpoints.open_checkpoint(str(goldens / "squad/finetuned_v1.1"))
    assert "bert/pooler/dense/kernel" in golden.shapes
    assert "bert/pooler/dense/kernel/adam_m" not in golden.shapes
    found = sgd_run(goldens, 2, rule=rule, kind="tagging")
    assert_pooler_stays(goldens, found)


@pytest.mark.all
def test_they_stay_on_two_devices_too(goldens, two_devices):
    assert_pooler_stays(goldens, two_devices[3])


def is_compiled(num_steps, trims=False, **options):
    """Whether a training of a model of 6 layers of 384 is compiled."""
    config = BertConfig(
        vocab_size=9,
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
    )
    options = TrainOptions(
        output_dir="out",
        num_train_steps=num_steps,
        train_batch_size=32,
        **options,
    )
    return with_fusion(options, config, seq_length=128, trims=trims).fuse


def test_what_is_compiled_is_decided_by_the_length_of_training():
    assert is_compiled(20) is False
    assert is_compiled(1000) is True
    assert is_compiled(20, num_train_minutes=1.0) is True
    assert is_compiled(20, fuse=True) is True
    assert is_compiled(1000, fuse=False) is False


def test_compiling_pays_for_long_training_and_large_models():
    # One length: 2e8 / (32 * 128 * 6 * 384) = 21.2 steps.
    assert not is_compiled(21)
    assert is_compiled(22)
    # Several lengths, half as long: twice as many for each.
    most = int(2 * 21.193 * len(trimmed_lengths(128)))
    assert not is_compiled(most, trims=True)
    assert is_compiled(most + 1, trims=True)
