"""Tests do not use a GPU of the machine, and neither do programs they start."""

import os

from tests.support import fork_server

SEEN = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))"


def test_gpus_are_hidden_unless_asked_for(pytestconfig):
    if pytestconfig.getoption("--gpu"):
        return
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "-1"
    done = fork_server.python("-c", SEEN)
    assert done.stdout == "-1\n"
