"""A pretraining that is killed or preempted ends as if nothing had happened."""

import random
from signal import SIGKILL, SIGTERM

import pytest

from tests.support.kill_runs import SAVE_STEPS, make_pretraining
from tests.support.kill_support import (
    after_steps,
    in_the_start_up,
    interrupt_again_and_again,
    twenty_one,
    while_saving,
)
from tests.support.pretraining_support import RECORDS, assert_same_checkpoint
from tests.support.tiers import rare

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def whole(goldens, tmp_path_factory):
    """The last checkpoint of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    make_pretraining(goldens, folder, 52, save_steps=52).finish()
    return folder / "model.ckpt-52"


def while_evaluating(run):
    """A point in the next evaluation."""
    return "evaluating", random.randint(1, 50)


# They take 3 x 16 = 48 steps at most: an evaluation is left, at step 50.
INTERRUPTIONS = (
    [(SIGKILL, while_saving), (SIGTERM, after_steps(1, 16))],
    [
        (SIGKILL, after_steps(5, 16)),
        (SIGTERM, in_the_start_up),
        (SIGKILL, after_steps(5, 16)),
        (SIGTERM, while_evaluating),
    ],
)


@pytest.mark.parametrize(
    "interruptions",
    [INTERRUPTIONS[0], rare(INTERRUPTIONS[1])],
    ids=["training", "elsewhere"],
)
def test_an_interrupted_run_ends_with_the_same_weights(
    goldens, tmp_path, whole, interruptions
):
    run = make_pretraining(
        goldens,
        tmp_path / "interrupted",
        52,
        f"--eval_file={goldens / RECORDS}",
        "--eval_every_steps=25",
        "--max_eval_steps=50",
    )
    interrupt_again_and_again(run, interruptions, SAVE_STEPS)
    assert_same_checkpoint(run.folder / whole.name, whole)


@pytest.mark.slow
@pytest.mark.parametrize("number", [SIGKILL, SIGTERM])
def test_a_run_interrupted_twenty_times_ends_with_the_same_weights(
    goldens, tmp_path, number
):
    whole = make_pretraining(goldens, tmp_path / "whole", 1000, save_steps=1000)
    whole.finish()
    run = make_pretraining(goldens, tmp_path / "interrupted", 1000)
    interrupt_again_and_again(run, twenty_one(number), SAVE_STEPS)
    assert_same_checkpoint(
        run.folder / "model.ckpt-1000", whole.folder / "model.ckpt-1000"
    )
