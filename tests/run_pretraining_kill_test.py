"""A run that is killed ends as if nothing had happened."""

import json
import random
import signal
import subprocess
import time

import numpy as np
import pytest

from tests.pretraining_support import (
    command,
    latest_step,
    read_all,
    run,
)


def kill_and_compare(goldens, root, tmp_path, num_kills, num_steps=600):
    config = json.loads((goldens / "bert_config.json").read_text())
    config |= {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    flags = [
        "--do_train",
        f"--bert_config_file={tmp_path / 'config.json'}",
        f"--num_train_steps={num_steps}",
        "--num_warmup_steps=10",
        "--learning_rate=1e-3",
        "--save_checkpoints_steps=4",
    ]
    whole = run(command(goldens, tmp_path / "whole", *flags), root)
    assert whole.returncode == 0, whole.stderr[-2000:]
    killed = tmp_path / "killed"
    killed.mkdir()
    rng = random.Random()
    killed_at = []
    while len(killed_at) < num_kills:
        before = latest_step(killed)
        process = subprocess.Popen(
            command(goldens, killed, *flags),
            cwd=root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Some time after its first save: in a step, or while saving.
        while latest_step(killed) == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 1.5 / num_kills))
        process.send_signal(signal.SIGKILL)
        # A run that ended before it was hit would prove nothing.
        assert process.wait() == -signal.SIGKILL, latest_step(killed)
        assert latest_step(killed) > before
        killed_at.append(latest_step(killed))
    last = run(command(goldens, killed, *flags), root)
    assert last.returncode == 0, last.stderr[-2000:]
    assert "Resuming" in last.stderr
    ours, theirs = (
        read_all(folder / f"model.ckpt-{num_steps}")
        for folder in (killed, tmp_path / "whole")
    )
    for name, value in theirs.items():
        np.testing.assert_array_equal(
            ours[name], value, err_msg=f"{name}, killed at {killed_at}"
        )
    assert not list(killed.glob("*incomplete*"))


def test_a_killed_run_ends_with_the_same_weights(
    goldens, pytestconfig, tmp_path
):
    kill_and_compare(goldens, pytestconfig.rootpath, tmp_path, num_kills=3)


@pytest.mark.slow
def test_a_run_killed_twenty_times_ends_with_the_same_weights(
    goldens, pytestconfig, tmp_path
):
    kill_and_compare(
        goldens,
        pytestconfig.rootpath,
        tmp_path,
        num_kills=20,
        num_steps=2000,
    )
