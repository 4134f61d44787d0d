import json
import re
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

import pytest

from tests.support import kill_runs
from tests.support.kill_runs import SAVE_STEPS
from tests.support.kill_support import (
    HANG,
    HANGS,
    Run,
    after_steps,
    while_saving,
)
from tests.support.pretraining_support import RECORDS, latest_step, read_all
from tests.training.support import assert_near_weights, configurations
from training.devices.preemption import EXIT_CODE

pytestmark = [pytest.mark.all, pytest.mark.alone]


def on_two_workers(run):
    """The same run, on two workers of this host."""
    ((arguments, _),) = run._commands
    commands = ((arguments, {"TF_CONFIG": text}) for text in configurations(2))
    return Run(run.folder, *commands)


def make_pretraining(
    goldens, folder, *flags, save_steps=SAVE_STEPS, num_steps=64
):
    run = kill_runs.make_pretraining(
        goldens,
        folder,
        num_steps,
        "--distribution_strategy=multi_worker_mirrored",
        *flags,
        save_steps=save_steps,
    )
    return on_two_workers(run)


def make_classifier(goldens, folder, save_steps=SAVE_STEPS, num_steps=64):
    run = kill_runs.make_classifier(
        goldens, folder, num_steps // 8, save_steps=save_steps
    )
    return on_two_workers(run)


def interrupt_one(run, who, number, point):
    """Starts both workers; one sends itself a signal: the other ends, too."""
    run.start(number, point, who)
    status = run.processes[1 - who].wait(HANGS)
    assert status == EXIT_CODE, run.log()[-3000:]
    status = run.processes[who].wait(HANGS)
    if number == SIGKILL:
        assert status == -SIGKILL
        assert f"lost worker {who} (127.0.0.1:" in run.log()
    else:
        assert status == EXIT_CODE
        assert "preempted by SIGTERM" in run.log()


def interrupt_all(run, interruptions):
    """Interrupts it again and again; at most SAVE_STEPS are repeated."""
    kept = 0
    for who, number, point in interruptions:
        interrupt_one(run, who, number, point)
        seen = run.seen_step()
        if seen:
            assert run.resumed_at() >= kept
        kept = max(kept, seen - (0 if number == SIGTERM else SAVE_STEPS))
    assert kept > 0
    run.finish()
    assert run.resumed_at() >= kept


def test_two_workers_of_which_one_is_lost_end_with_the_same_weights(
    goldens, tmp_path
):
    whole = make_pretraining(goldens, tmp_path / "whole", save_steps=64)
    whole.finish()
    run = make_pretraining(goldens, tmp_path / "interrupted")
    # They take 20 + 16 + 20 = 56 steps at most.
    interrupt_all(
        run,
        [
            (1, SIGKILL, after_steps(5, 20)),
            (0, SIGKILL, while_saving),
            (1, SIGTERM, after_steps(5, 20)),
        ],
    )
    # Sums over workers may change their order.
    last = (read_all(x.folder / "model.ckpt-64") for x in (run, whole))
    assert_near_weights(*last, rtol=0)
    # The chief alone has written there.
    assert not list(run.folder.glob("*incomplete*"))
    assert not list(run.folder.glob("*worker*"))


@pytest.mark.slow
@pytest.mark.parametrize("make", [make_pretraining, make_classifier])
def test_two_workers_interrupted_twenty_times_end_with_the_same_weights(
    goldens, tmp_path, make
):
    whole = make(goldens, tmp_path / "whole", save_steps=400, num_steps=400)
    whole.finish()
    run = make(goldens, tmp_path / "interrupted", num_steps=400)
    # They take 7 x (16 + 16 + 12) = 308 steps at most.
    points = [after_steps(5, 16), while_saving, after_steps(1, 12)]
    interrupt_all(
        run,
        [
            (i % 2, SIGTERM if i % 5 == 4 else SIGKILL, points[i % 3])
            for i in range(21)
        ],
    )
    # Sums over workers may change their order.
    last = (read_all(x.folder / "model.ckpt-400") for x in (run, whole))
    assert_near_weights(*last, rtol=0)


def test_sigterm_to_a_worker_that_evaluates_costs_nothing(goldens, tmp_path):
    run = make_pretraining(
        goldens,
        tmp_path / "out",
        f"--eval_file={goldens / RECORDS}",
        "--eval_every_steps=6",
        "--max_eval_steps=1000000",  # it does not end by itself
        save_steps=120,
    )
    interrupt_one(run, 1, SIGTERM, lambda run: ("evaluating", 10))
    assert run.log().count("preempted by SIGTERM") == 2
    assert latest_step(run.folder) == run.seen_step() == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "message"),
    [
        # It answers TensorFlow, so that only the deadline ends the wait for it.
        (
            HANG,
            r"worker 0 \(127.0.0.1:\d+\) has waited [12]\.\d minutes for the "
            r"other workers, at steps (9|10) to \d+\. One of them hangs",
        ),
        # The whole process stops, which TensorFlow notices.
        (SIGSTOP, r"lost worker 1 \(127.0.0.1:\d+\)"),
    ],
)
def test_a_hanging_worker_ends_the_others(goldens, tmp_path, number, message):
    run = make_pretraining(
        goldens,
        tmp_path / "out",
        "--worker_timeout_minutes=1",  # the first step may take half of it
    )
    run.start(number, after_steps(8, 8), who=1)
    try:
        assert run.processes[0].wait(HANGS) == EXIT_CODE, run.log()[-3000:]
        assert re.search(f"error: {message}", run.log()), run.log()[-3000:]
    finally:
        run.processes[1].send_signal(SIGCONT)
    # It finds that the other one is gone.
    assert run.processes[1].wait(HANGS) == EXIT_CODE, run.log()[-3000:]
    assert latest_step(run.folder) == 8


def test_workers_that_see_different_folders_are_refused(goldens, tmp_path):
    run = with_different_workers(
        make_pretraining(goldens, tmp_path / "one"),
        f"--output_dir={tmp_path}/two",
    )
    run.start()
    assert [process.wait() for process in run.processes] == [1, 1]
    (_, environment) = run._commands[0]
    one, two = json.loads(environment["TF_CONFIG"])["cluster"]["worker"]
    assert (
        f"error: worker 1 ({two}) cannot see what worker 0 ({one}) writes to "
        f"--output_dir (here: {tmp_path}/two)."
    ) in run.log()
    assert not list(tmp_path.glob("one/.*"))


def with_different_workers(run, *flags):
    """The same, but with other flags for the second worker."""
    (one, environment), (two, other_environment) = run._commands
    other = [*two, *flags], other_environment
    return Run(run.folder, (one, environment), other)


def test_workers_with_different_flags_are_refused(goldens, tmp_path):
    run = with_different_workers(
        make_pretraining(goldens, tmp_path / "one"),
        "--seed=7",
        "--log_steps=10",
        "--verbosity=0",  # may differ
    )
    run.start()
    assert [process.wait() for process in run.processes] == [1, 1]
    for here in ("--log_steps=1; --seed=12345", "--log_steps=10; --seed=7"):
        assert f"in --log_steps, --seed (here: {here}). Start" in run.log()
    assert "error: worker 1 (127.0.0.1:" in run.log()
    assert not list(run.folder.glob("*"))
