"""The loop against the original's trajectory, and against itself."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.support import rounding
from tests.support.pretraining_support import read_all
from tests.support.tiers import rare
from tests.training.finetuning_support import Stopped, stop_at
from tests.training.support import (
    assert_losses_near,
    assert_same_weights,
    golden_run,
)
from training.devices.precision import FROZEN
from training.loop import events
from training.loop import trainer as loop
from training.loop.checkpointing import CheckpointManager


def test_no_training_computes_with_its_first_weights_for_ever(
    goldens, tmp_path, monkeypatch
):
    monkeypatch.setenv(FROZEN, "1")  # as for a server
    with pytest.raises(ValueError, match=f"{FROZEN} is set.*; unset it"):
        golden_run(goldens, tmp_path, num_layers=3)


@pytest.fixture(scope="module")
def golden_losses(goldens):
    with np.load(goldens / "model/pretraining_trajectory.npz") as arrays:
        columns = arrays["losses"].T
    names = ("loss", "masked_lm_loss", "next_sentence_loss", "gradient_norm")
    return dict(zip(names, columns, strict=True))


def test_sixty_steps_equal_the_original(goldens, golden_losses, tmp_path):
    metrics, _ = golden_run(goldens, tmp_path, num_layers=3)
    for name, expected in golden_losses.items():
        tolerance = 1e-4  # as docs/results.md promises
        if name == "gradient_norm":
            tolerance = rounding.TRAINED_NORM * expected.max()
        np.testing.assert_allclose(
            metrics[name], expected, atol=tolerance, rtol=0
        )
    ours = read_all(tmp_path / "model.ckpt-60")
    original = read_all(goldens / "model/trained")
    assert ours["global_step"] == original["global_step"] == 60
    assert_same_weights(ours, original, share=1e-3)


def test_a_run_of_the_original_resumes_here(goldens, tmp_path, golden_losses):
    # Its files, copied as they are: no resume record, its checkpoint file.
    for path in (goldens / "model/trained").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    metrics, _ = golden_run(goldens, tmp_path, num_layers=3, num_train_steps=64)
    assert len(metrics["loss"]) == 4
    assert metrics["loss"][0] < golden_losses["loss"][0] - 2
    after = read_all(tmp_path / "model.ckpt-64")
    assert after["global_step"] == 64
    slot = "bert/embeddings/word_embeddings/adam_v"
    before = read_all(goldens / "model/trained")[slot]
    # Slots went on from the original's: v shrinks by 0.999 a step at most.
    assert (after[slot] >= before * 0.999**4 * (1 - 1e-5)).all()


@pytest.fixture(scope="module")
def in_whole_batches(goldens, tmp_path_factory):
    """The folder of a run that saves each step, its metrics and weights."""
    folder = tmp_path_factory.mktemp("eight")
    options = {"save_checkpoints_steps": 1, "log_steps": 4}
    return folder, *golden_run(goldens, folder, num_train_steps=8, **options)


@pytest.mark.parametrize("count", [2, rare(8)])
def test_micro_batches_give_the_same_steps(
    goldens, tmp_path, in_whole_batches, count
):
    _, whole, weights = in_whole_batches
    options = {"num_train_steps": 8, "gradient_accumulation_steps": count}
    parts, same = golden_run(goldens, tmp_path, **options)
    # Sums in another order: float32 rounding.
    rounding.assert_equal(parts["loss"], whole["loss"])
    assert_same_weights(same, weights, share=1e-4)


@pytest.mark.parametrize(
    ("is_tpu", "lengths"),
    # A second has 8 steps and five have 40, up to the next log line. The first
    # call compiles, too.
    [(False, [1, 1, 8, 8, 2, 8, 8, 4]), (True, [1, 1, 18, 20])],
)
def test_calls_are_as_long_as_a_signal_may_wait(
    goldens, tmp_path, monkeypatch, is_tpu, lengths
):
    if is_tpu:
        everything = tf.distribute.Strategy
        monkeypatch.setattr(tf.distribute, "TPUStrategy", everything)
    now, found = [0.0], []

    def run_steps(self, iterator, *, first_step, num_steps, positions):
        now[0] += num_steps / 8 + (60.0 if first_step == 1 else 0.0)
        found.append(num_steps)
        self._steps.metric_names = ["loss"]
        return np.ones([num_steps, 1, 2], np.float32)

    monkeypatch.setattr(loop.Trainer, "run_steps", run_steps)
    monkeypatch.setattr(CheckpointManager, "save", lambda *args: None)
    golden_run(
        goldens,
        tmp_path,
        clock=lambda: now[0],
        num_train_steps=40,
        log_steps=20,
        save_checkpoints_steps=100,
    )
    assert found == lengths


def test_resumed_runs_and_short_calls_repeat_the_steps(goldens, tmp_path):
    # Dropout and shuffling on; 337 records, so 30 steps of 16 pass the end
    # of the file once. Stopped at 23, not a multiple of saving.
    options = {"dropout": 0.1, "shuffle_window": 50, "num_train_steps": 30}
    calls = {"iterations_per_loop": 100}
    once, whole = golden_run(goldens, tmp_path / "a", **options, **calls)

    options |= {"save_checkpoints_steps": 5}
    stops = {"evaluate": stop_at(23), "eval_every_steps": 1}
    with pytest.raises(Stopped):
        golden_run(goldens, tmp_path / "b", **options, **stops)
    options |= {"iterations_per_loop": 1}
    metrics, resumed = golden_run(goldens, tmp_path / "b", **options)
    assert len(metrics["loss"]) == 10  # from step 20, the last one saved
    np.testing.assert_array_equal(metrics["loss"], once["loss"][20:])
    for name in whole:
        np.testing.assert_array_equal(whole[name], resumed[name])


def test_a_loss_that_becomes_nan_names_its_step(goldens, tmp_path):
    run_steps = loop.Trainer.run_steps

    def poisoned(self, iterator, *, first_step, **call):
        if first_step > 4:
            weight = self._steps.weights["bert/pooler/dense/kernel"]
            weight.assign(weight * np.nan)
            # As of a run that went back to an earlier step.
            (tmp_path / "model.ckpt-9.index").touch()
        return run_steps(self, iterator, first_step=first_step, **call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.Trainer, "run_steps", poisoned)
        message = f"step 5: .*loss.* became nan .*: {tmp_path}/model.ckpt-4. Lo"
        often = {"save_checkpoints_steps": 2, "log_steps": 2}
        with pytest.raises(FloatingPointError, match=message):
            golden_run(goldens, tmp_path, num_train_steps=8, **often)
    assert CheckpointManager(str(tmp_path)).steps() == [2, 4, 9]
    last = read_all(tmp_path / "model.ckpt-4")
    assert all(np.isfinite(value).all() for value in last.values())


@pytest.mark.all
def test_bfloat16_follows_float32(goldens, tmp_path, golden_losses):
    metrics, _ = golden_run(
        goldens, tmp_path, num_layers=3, dtype="mixed_bfloat16"
    )
    assert_losses_near(metrics["loss"], golden_losses["loss"], "bfloat16")


def test_only_the_newest_checkpoints_are_kept(in_whole_batches):
    folder = in_whole_batches[0]
    assert CheckpointManager(str(folder)).steps() == [4, 5, 6, 7, 8]
    state = (folder / "checkpoint").read_text()
    assert 'model_checkpoint_path: "' in state
    assert state.count("all_model_checkpoint_paths") == 5
    point = json.loads((folder / "model.ckpt-8.resume.json").read_text())
    assert point.pop("index_sha256") != point.pop("sha256")
    assert point.pop("train_seconds") > 0
    assert point == {
        "global_step": 8,
        "examples_seen": 128,
        "seed": 12345,
        "num_examples": 337,
        "optimizer": "adamw",
        "arithmetic": "float32",
        "is_stripped": False,
        "made_from": {},
        "settings": {},
    }


def test_events_hold_every_figure(in_whole_batches):
    points = events.read_points(str(in_whole_batches[0]))
    assert set(points) == {
        *("loss", "masked_lm_loss", "masked_lm_accuracy"),
        *("next_sentence_loss", "next_sentence_accuracy"),
        *("gradient_norm", "learning_rate", "examples/sec", "global_step/sec"),
    }
    assert [*points["loss"]] == [4, 8]
    # Warm-up over 10 of 8 steps: the rate of update 4 is 4e-4.
    assert points["learning_rate"][4] == pytest.approx(4e-4, rel=1e-5)
