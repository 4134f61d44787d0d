"""The schedule of a run by steps and by time."""

import json

import numpy as np
import pytest

from modeling import checkpoints
from tests.training.support import golden_run
from training.config.run_options import TrainOptions
from training.loop import resuming, schedule
from training.loop.schedule import Schedule


class Clock:
    """A clock that advances on demand, or by a fixed time at each call."""

    def __init__(self, tick=0.0):
        self.now = 1000.0
        self.tick = tick

    def __call__(self):
        self.now += self.tick
        return self.now


def make_schedule(clock, seconds=0.0, **options):
    options = TrainOptions(output_dir="x", num_train_steps=600, **options)
    return Schedule(options, seconds=seconds, clock=clock)


def test_by_steps_the_position_is_the_step():
    schedule = make_schedule(Clock(tick=1e6))
    assert schedule.positions(0).tolist() == [1, 1]
    assert schedule.positions(41).tolist() == [42, 1]
    assert schedule.steps_left(597) == 3
    assert not schedule.is_over(599)
    assert schedule.is_over(600)


def test_a_stop_before_the_end_is_the_end():
    schedule = make_schedule(Clock(), stop_at_step=7)
    assert schedule.steps_left(5) == 2
    assert not schedule.is_over(6)
    assert schedule.is_over(7)
    # The rate is that of the whole schedule.
    assert schedule.positions(5).tolist() == [6, 1]


def test_by_the_clock_the_position_is_the_share_of_the_time():
    # 600 steps in 5 minutes: 2 a second.
    clock = Clock()
    schedule = make_schedule(clock, num_train_minutes=5.0)
    assert schedule.steps_left(0) == 1  # nothing measured yet
    assert schedule.positions(0).tolist() == [0, 0]
    clock.now += 60
    schedule.seconds_per_step = 5.0
    assert not schedule.is_over(1)
    assert schedule.steps_left(1) == (300 - 60) / 5
    # 60 s are position 120; an update of 5 s is 10 further, at its end.
    assert schedule.positions(1).tolist() == [130, 10]
    clock.now += 238
    assert schedule.steps_left(40) == 1
    assert not schedule.is_over(40)
    clock.now += 2
    assert schedule.is_over(41)
    assert schedule.seconds == 300


def test_the_time_before_a_resume_counts():
    clock = Clock()
    schedule = make_schedule(clock, seconds=240.0, num_train_minutes=5.0)
    schedule.seconds_per_step = 1.0
    assert schedule.steps_left(9) == 60
    assert schedule.positions(9).tolist() == [482, 2]
    clock.now += 60
    assert schedule.is_over(99)


def test_a_run_is_finished_for_all_when_it_is_for_the_slowest(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(
        schedule, "all_workers", lambda _, row: np.array([row, [300.0]])
    )
    first = make_schedule(clock, num_train_minutes=5.0)
    clock.now += 299
    assert first.is_over(7)
    assert first.seconds == 300
    monkeypatch.undo()
    again = make_schedule(clock, seconds=first.seconds, num_train_minutes=5.0)
    assert again.is_over(7)


def test_training_by_the_clock_warms_up_and_decays(goldens, tmp_path, caplog):
    options = {"num_train_minutes": 1.0, "num_train_steps": 60}
    # A look at the clock costs 0.7 s, and an update several looks.
    metrics, _ = golden_run(goldens, tmp_path, clock=Clock(0.7), **options)
    rates = metrics["learning_rate"]
    # num_warmup_steps is 10 of 60: the first sixth of the time.
    top = int(np.argmax(rates))
    assert rates[0] < 3e-4
    assert 7e-4 < rates[top] <= 1e-3
    assert top < len(rates) / 3
    assert (np.diff(rates[top:]) <= 0).all()
    assert rates[-1] < 1e-4
    (path,) = tmp_path.glob("model.ckpt-*.resume.json")
    record = json.loads(path.read_text())
    assert record["global_step"] == len(rates)
    assert 60 <= record["train_seconds"] < 66
    # The time is over: nothing more to do.
    caplog.clear()
    metrics, _ = golden_run(goldens, tmp_path, clock=Clock(0.7), **options)
    assert not metrics
    assert "1 minutes are asked for: nothing to train." in caplog.text
    longer = TrainOptions(output_dir="out", num_train_steps=1_234_567)
    resuming.warn_finished(longer, 2_000_000)
    text = "holds step 2000000, and 1234567 steps are asked for: nothing to "
    assert f"{text}train. To continue, give more by --num_train" in caplog.text


def test_a_phase_that_continues_another_equals_one_run(goldens, tmp_path):
    options = {"num_train_steps": 6, "dropout": 0.1}
    metrics, weights = golden_run(goldens, tmp_path / "whole", **options)
    first, second = tmp_path / "first", tmp_path / "second"
    golden_run(goldens, first, stop_at_step=3, **options)
    # Its input begins at its beginning: where the first phase stopped.
    options |= {"offset": 3 * 16, "continue_from": str(first)}
    rest, continued = golden_run(goldens, second, **options)
    for name in ("loss", "gradient_norm", "learning_rate"):
        np.testing.assert_array_equal(rest[name], metrics[name][3:])
    for name, value in weights.items():
        np.testing.assert_array_equal(continued[name], value)
    record = json.loads((second / "model.ckpt-6.resume.json").read_text())
    assert record["examples_seen"] == 3 * 16  # of its own input
    assert checkpoints.tf1.latest_name(str(first)) == "model.ckpt-3"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stop_at_step": 11}, "--stop_at_step=11 is after --num_train_steps="),
        (
            {"stop_at_step": 3, "num_train_minutes": 2.0},
            "--num_train_minutes=2.0 contradicts --stop_at_step=3; drop one",
        ),
        (
            {"continue_from": "a", "num_train_minutes": 2.0},
            "--num_train_minutes=2.0 contradicts --continue_from=a; drop one",
        ),
    ],
)
def test_contradictions_are_refused(change, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        TrainOptions(**{"output_dir": "x", "num_train_steps": 10} | change)
