"""float16: the loss scale, updates that are skipped, runs that resume."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import checkpoints
from modeling.checkpoints.tf1 import is_weight
from tests.training.support import assert_losses_near, golden_run
from training.loop import loss_scale
from training.loop.checkpointing import CheckpointManager, ResumePoint
from training.loop.loss_scale import LossScale
from training.loop.optimizers import AdamWeightDecay


def scales(finite, start=None):
    """The scale after each of some updates."""
    scale = LossScale()
    if start:
        scale.value.assign(start)
    seen = []
    for value in finite:
        scale.update(tf.constant(value))
        seen.append(float(scale.value))
    return seen


def test_it_halves_where_gradients_overflow_but_not_below_one():
    assert scales([True, False, False, True]) == [32768, 16384, 8192, 8192]
    assert scales([False, False, False], start=2.0) == [1, 1, 1]


def test_it_doubles_after_good_updates_in_a_row(monkeypatch):
    monkeypatch.setattr(loss_scale, "STEPS_TO_DOUBLE", 3)
    good = [True] * 3
    assert scales([*good, *good], start=1.0) == [1, 1, 2, 2, 2, 4]
    # An overflow begins the count anew.
    assert scales([True, True, False, *good], start=8.0) == [8, 8, 4, 4, 4, 8]


def test_it_waits_for_two_thousand():
    assert scales([True] * 2000, start=2.0)[-2:] == [2, 4]


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_an_overflow_leaves_weights_and_slots_as_they_are(bad):
    variable = tf.Variable([1.0, 2.0])
    adam = AdamWeightDecay({"x/kernel": variable}, skips_overflow=True)

    def apply(gradient):
        adam.apply([tf.constant(gradient)], tf.constant(0.1), tf.constant(1))
        return [x.numpy() for x in (variable, *adam.slots.values())]

    before = apply([0.5, 0.5])
    np.testing.assert_array_equal(apply([0.5, bad]), before)
    assert not np.array_equal(apply([0.5, 0.5]), before)


@pytest.mark.all
def test_twenty_steps_stay_near_float32_and_save_the_scale(goldens, tmp_path):
    half = {"dtype": "mixed_float16", "num_layers": 3}
    metrics, _ = golden_run(goldens, tmp_path, stop_at_step=20, **half)
    with np.load(goldens / "model/pretraining_trajectory.npz") as arrays:
        expected = arrays["losses"][:, 0]
    assert len(metrics["loss"]) == 20
    assert_losses_near(metrics["loss"], expected, "float16")
    assert set(metrics["loss_scale"]) == {32768.0}
    saved = checkpoints.Checkpoint(str(tmp_path / "model.ckpt-20"))
    assert saved.read("loss_scale") == 32768
    assert saved.read("loss_scale_good_steps") == 20
    assert not [name for name in saved.weights() if "loss_scale" in name]
    assert not is_weight("loss_scale")


@pytest.mark.all  # of GPUs alone, and 18 s
def test_a_skipped_update_halves_and_a_resumed_run_repeats_it_all(
    goldens, tmp_path, monkeypatch
):
    # At 2^40 every gradient overflows.
    monkeypatch.setattr(loss_scale, "START", 2.0**40)
    monkeypatch.setattr(loss_scale, "STEPS_TO_DOUBLE", 4)
    options = {"dtype": "mixed_float16", "num_train_steps": 40}
    whole, weights = golden_run(
        goldens, tmp_path / "a", save_checkpoints_steps=15, **options
    )
    assert list(whole["loss_scale"][:3]) == [2.0**40, 2.0**39, 2.0**38]
    assert np.isnan(whole["gradient_norm"][0])  # nothing was counted
    (tmp_path / "b").mkdir()
    for path in (tmp_path / "a").glob("model.ckpt-15.*"):
        (tmp_path / "b" / path.name).write_bytes(path.read_bytes())
    rest, resumed = golden_run(goldens, tmp_path / "b", **options)
    for name in ("loss", "loss_scale"):
        np.testing.assert_array_equal(rest[name], whole[name][15:])
    for name in weights:
        np.testing.assert_array_equal(resumed[name], weights[name])
    # Halved until it fits, doubled after four, halved again.
    assert len(set(whole["loss_scale"][-10:])) > 1


@pytest.mark.all
def test_a_run_that_overflows_at_the_least_scale_stops(
    goldens, tmp_path, monkeypatch
):
    monkeypatch.setattr(loss_scale, "START", 2.0**40)
    monkeypatch.setattr("training.loop.steps.LEAST", 2.0**38)
    message = "step 3: gradient_norm became nan or inf"
    with pytest.raises(FloatingPointError, match=message):
        golden_run(goldens, tmp_path, dtype="mixed_float16", num_train_steps=8)


def test_a_run_of_float32_goes_on_in_float16_and_back(tmp_path, caplog):
    manager = CheckpointManager(str(tmp_path))
    weights = {
        name: tf.Variable([1.0]) for name in ("x/kernel", "x/kernel/adam_m")
    }
    manager.save(weights, ResumePoint(1, 8, 7, 100))
    scale = LossScale()
    assert manager.restore(weights | scale.saved).global_step == 1
    assert float(scale.value) == 32768
    assert "no optimizer slots" not in caplog.text
    scale.update(tf.constant(False))
    manager.save(weights | scale.saved, ResumePoint(2, 16, 7, 100))
    assert manager.restore(weights).global_step == 2
    again = LossScale()
    manager.restore(weights | again.saved)
    assert float(again.value) == 16384
