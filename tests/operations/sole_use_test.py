import os

import pytest

from data.storage import locks
from tests.support.fork_server import run_golden
from tests.support.pretraining_support import RECORDS


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("run_pretraining.py", f"--input_file={{}}/{RECORDS}"),
        # run_classifier.py and its trials go through the same function.
        ("run_squad.py", "--train_file={}/squad/train-v1.1.json"),
    ],
)
def test_a_folder_in_use_is_not_touched(goldens, tmp_path, program, text):
    with locks.sole_use(str(tmp_path)):
        flags = "--do_train", text.format(goldens)
        done = run_golden(goldens, program, tmp_path, *flags, code=1)
        last = done.stderr.splitlines()[-1]
        message = f"{tmp_path} is in use by process {os.getpid()} on "
        assert last.startswith(f"error: --output_dir: {message}")
        assert os.listdir(tmp_path) == [".lock"]


@pytest.mark.all
def test_a_task_of_several_that_is_in_use_fails_alone(goldens, tmp_path):
    mrpc = f"{goldens}/classifier/MRPC/expected/model.ckpt-16"
    with locks.sole_use(str(tmp_path / "CoLA")):
        last = run_golden(
            goldens,
            "run_classifier.py",
            tmp_path,
            "--task_name=CoLA,MRPC",
            f"--data_dir={goldens}/classifier",
            f"--init_checkpoint={mrpc}",
            "--max_seq_length=64",
            "--do_eval",
            code=1,
        ).stderr.splitlines()[-1]
        assert "1 of 2 tasks failed: CoLA: --output_dir: " in last
        assert "is in use by process" in last
        assert os.listdir(tmp_path / "CoLA") == [".lock"]
    assert (tmp_path / "MRPC/eval_results.txt").exists()
