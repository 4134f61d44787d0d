"""A pretraining that is killed or preempted ends as if nothing had happened."""

import json
import random
from signal import SIGKILL, SIGTERM

import pytest

from tests.kill_support import (
    Run,
    after_steps,
    assert_same_checkpoint,
    in_the_start_up,
    interrupt_again_and_again,
    twenty_one,
    while_saving,
)
from tests.pretraining_support import RECORDS, command

SAVE_STEPS = 4


def make_run(goldens, root, folder, num_steps, *flags, save_steps=SAVE_STEPS):
    config = json.loads((goldens / "bert_config.json").read_text())
    config |= {
        "num_hidden_layers": 1,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
    }
    path = folder.parent / "config.json"
    path.write_text(json.dumps(config))
    arguments = command(
        goldens,
        folder,
        "--do_train",
        f"--bert_config_file={path}",
        f"--num_train_steps={num_steps}",
        "--num_warmup_steps=10",
        "--learning_rate=1e-3",
        f"--save_checkpoints_steps={save_steps}",
        "--log_steps=1",
        *flags,
    )
    return Run(root, folder, (arguments, {}))


@pytest.fixture(scope="module")
def whole(goldens, pytestconfig, tmp_path_factory):
    """The last checkpoint of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    root = pytestconfig.rootpath
    make_run(goldens, root, folder, 300, save_steps=300).finish()
    return folder / "model.ckpt-300"


def while_evaluating(run):
    """A point in the next evaluation."""
    return "evaluating", random.randint(1, 200)


def test_an_interrupted_run_ends_with_the_same_weights(
    goldens, pytestconfig, tmp_path, whole
):
    run = make_run(
        goldens,
        pytestconfig.rootpath,
        tmp_path / "interrupted",
        300,
        f"--eval_file={goldens / RECORDS}",
        "--eval_every_steps=75",
        "--max_eval_steps=200",
    )
    interruptions = [
        (SIGKILL, after_steps(5, 44)),
        (SIGKILL, while_saving),
        (SIGTERM, in_the_start_up),
        (SIGTERM, after_steps(1, 40)),
        (SIGKILL, after_steps(5, 44)),
        (SIGTERM, while_evaluating),
    ]
    interrupt_again_and_again(run, interruptions, SAVE_STEPS)
    assert_same_checkpoint(run.folder / whole.name, whole)


@pytest.mark.slow
@pytest.mark.parametrize("number", [SIGKILL, SIGTERM])
def test_a_run_interrupted_twenty_times_ends_with_the_same_weights(
    goldens, pytestconfig, tmp_path, number
):
    root = pytestconfig.rootpath
    whole = make_run(goldens, root, tmp_path / "whole", 1000, save_steps=1000)
    whole.finish()
    run = make_run(goldens, root, tmp_path / "interrupted", 1000)
    interrupt_again_and_again(run, twenty_one(number), SAVE_STEPS)
    assert_same_checkpoint(
        run.folder / "model.ckpt-1000", whole.folder / "model.ckpt-1000"
    )
