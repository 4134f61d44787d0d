"""A run that resumes: what has changed, and what its workers must share."""

import numpy as np
import pytest
import tensorflow as tf

from training.config.run_options import TrainOptions
from training.loop import resuming
from training.loop.checkpointing import CheckpointManager, ResumePoint


@pytest.fixture
def resume(tmp_path):
    """Resumes a run of which a checkpoint says some things, with others."""
    weights = {"weight": tf.Variable([1.0, 2.0])}
    before = CheckpointManager(str(tmp_path / "before"))

    def call(said=(), now=(), at="before", **options):
        before.save(weights, ResumePoint(7, 100, 12345, 50, **dict(said)))
        out = {"output_dir": str(tmp_path / at), "num_train_steps": 10}
        return resuming.resume(
            CheckpointManager(out["output_dir"]),
            weights,
            TrainOptions(**out | options),
            ResumePoint(0, 0, 12345, 50, **dict(now)),
        )

    return call


def add_worker(monkeypatch, change):
    """The second of two workers says the same as the first, plus `change`."""

    def both(strategy, values):
        return np.array([values, np.add(values, change)], np.float64)

    monkeypatch.setattr(resuming, "all_workers", both)
    monkeypatch.setattr(resuming, "num_workers", lambda strategy: 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ([-3, 0, 0, 0, 0], "checkpoints of different steps: 7, 4 "),
        ([0, 9, 0, 0, 0], "different places in the training input: 100, 109 "),
        ([0, 0, -1, 0, 0], "different numbers of training examples: 50, 49 "),
        ([0, 0, 0, 1, 0], "different weights: .*All must see the same --out"),
        ([0, 0, 0, 0, 1], "different training data: .*and the same input fil"),
    ],
)
def test_workers_that_find_different_things_are_refused(
    resume, monkeypatch, change, message
):
    add_worker(monkeypatch, change)
    with pytest.raises(ValueError, match=f"the workers find {message}"):
        resume()


def test_workers_that_find_the_same_go_on(resume, monkeypatch):
    add_worker(monkeypatch, [0, 0, 0, 0, 0])
    point = resume()
    assert (point.global_step, point.examples_seen) == (7, 100)


def test_workers_that_continue_at_different_steps_are_refused(
    resume, monkeypatch, tmp_path
):
    add_worker(monkeypatch, [1, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="checkpoints of different steps: 7, "):
        resume(at="next", continue_from=str(tmp_path / "before"))


@pytest.mark.parametrize(("name", "step"), [("before", 7), ("empty", 0)])
def test_a_phase_with_nothing_left_or_nothing_before_is_refused(
    resume, tmp_path, name, step
):
    folder = tmp_path / name
    message = f"^--continue_from={folder} is at step {step}, .*_steps=7: it"
    with pytest.raises(ValueError, match=message):
        resume(at="next", continue_from=str(folder), num_train_steps=7)


@pytest.mark.parametrize("resumes", [True, False])
def test_slots_of_another_optimizer_are_refused(resume, tmp_path, resumes):
    folder = tmp_path / "before"
    message = (
        f"^--optimizer=lamb, but the run of {folder} was trained with adamw; "
        "give --optimizer=adamw, .* --init_checkpoint="
    )
    phase = {"at": "next", "continue_from": str(folder)}
    with pytest.raises(ValueError, match=message):
        resume(optimizer="lamb", **({} if resumes else phase))


def test_a_run_that_resumes_says_what_else_it_was_trained_with(resume, caplog):
    options = TrainOptions(output_dir="", num_train_steps=10)
    # What is not known, of an earlier version, is not said.
    before = {"settings": options.shaping}
    for now in before, {}:
        resume(before, now)
    assert not caplog.messages
    changed = options.replace(learning_rate=1e-3, keep_checkpoint_max=9).shaping
    # The next checkpoint is of the new settings.
    assert resume(before, {"settings": changed}).settings == changed
    (message,) = caplog.messages
    assert "up to step 7: learning_rate 5e-05 -> 0.001. " in message
    assert "--init_checkpoint=" in message


def test_a_run_remembers_what_it_began_with(resume, caplog):
    began = {"settings": {"init_checkpoint": "/models/a/bert_model.ckpt"}}
    # Also if a command does not name it.
    assert resume(began, {}).settings == began["settings"]
    assert not caplog.messages
    other = {"settings": {"init_checkpoint": "/models/b/bert_model.ckpt"}}
    assert resume(began, other).settings == began["settings"]
    assert not caplog.messages  # `Start` says that it is not used


def test_a_copy_without_its_resume_point_is_not_taken_for_the_originals(
    resume, tmp_path, caplog
):
    resume()
    folder = str(tmp_path / "before")
    (tmp_path / "before/model.ckpt-7.resume.json").unlink()
    options = TrainOptions(output_dir=folder, num_train_steps=10)
    for number in 1, 1:  # the second has what the original's have
        again = {"weight": tf.Variable([1.0, 2.0])}, options, ResumePoint(0)
        resuming.resume(CheckpointManager(folder), *again)
        assert caplog.text.count("has no .resume.json, and no .meta") == number
        (tmp_path / "before/model.ckpt-7.meta").touch()


def test_a_run_that_goes_on_in_another_arithmetic_says_so(resume, caplog):
    half = {"arithmetic": "bfloat16"}
    # Written before the arithmetic was: nothing is known of it.
    assert resume({}, half).arithmetic == "bfloat16"
    assert not caplog.messages
    assert resume(half, {"arithmetic": "float32"}).arithmetic == "float32"
    assert "arithmetic is float32 now, but was bfloat16 before" in caplog.text
