"""A killed run loses no finished shard and leaves no process."""

import json
import os
import random
import re
import signal
import subprocess
import sys

import pytest

from data.storage import files
from tests.data.pretraining.support import contents, recipe_of, write
from tests.data.workers_support import HANGS, processes_of, wait_for

pytestmark = pytest.mark.alone

# It hits itself when so many shards are finished, and then a share of one
# shard's bytes more: however fast or slow the machine is, that is before the
# end.
WRITER = """
import math
import multiprocessing
import os
import pathlib
import signal
import sys
from absl import logging
from data import progress
from tests.data.pretraining.support import recipe_of, write

HITS = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    # As the terminal does for ^C.
    "interrupt": lambda: os.killpg(0, signal.SIGINT),
    "kill a worker": lambda: multiprocessing.active_children()[0].kill(),
}

class Hitting(progress.Progress):
    left = None

    def advance(self, count=1, figures=""):
        super().advance(count, figures)
        num_now = len(list(pathlib.Path(folder).glob("*.json")))
        if num_now < int(num_finished):
            return
        if self.left is None:
            self.left = float(share) * self._total / int(num_shards)
        self.left -= count
        if self.left <= 0:
            self.left = math.inf
            print("hit after", num_now, "shards", file=sys.stderr, flush=True)
            HITS[hit]()

if __name__ == "__main__":
    logging.set_verbosity(logging.INFO)
    folder, inputs, vocab, dupe_factor, num_shards, n = sys.argv[1:7]
    hit, num_finished, share = sys.argv[7:]
    if hit:
        progress.Progress = Hitting
    write(
        [inputs],
        pathlib.Path(folder),
        recipe_of(vocab, dupe_factor=int(dupe_factor)),
        int(num_shards),
        num_processes=int(n),
    )
"""


def end(process):
    """Waits for all of a run; returns the exit code and what it said."""
    said = process.communicate(timeout=HANGS)[1]
    wait_for(lambda: not processes_of(process.pid))
    return process.returncode, said


def write_text(goldens, path, num_copies):
    corpus = (goldens / "pretraining_data/corpus.txt").read_text("utf-8")
    path.write_text("\n\n".join([corpus.strip()] * num_copies), "utf-8")
    return path


@pytest.fixture
def start(goldens, pytestconfig, tmp_path):
    """Starts runs of the writer, and ends what a failed test leaves of them."""
    started = []

    def start(
        text,
        dupe_factor,
        num_shards=8,
        num_processes=2,
        hit="",
        num_finished=0,
        share=0.0,
    ):
        arguments = [tmp_path / "out", text, goldens / "vocab.txt", dupe_factor]
        arguments += [num_shards, num_processes, hit, num_finished, share]
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, *map(str, arguments)],
            cwd=pytestconfig.rootpath,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        for process_id in processes_of(process.pid):
            os.kill(process_id, signal.SIGKILL)
        process.communicate()


def check_unfinished(folder):
    """Checks the folder of an unfinished run."""
    names = {path.name for path in folder.iterdir()}
    assert not [n for n in names if ".incomplete-" not in n and "out-" in n]
    assert not [n for n in names if n.endswith(".manifest.json")]
    # A shard with a report is complete.
    reports = [folder / name for name in names if name.endswith(".json")]
    for path in reports:
        shard = path.with_suffix("")
        expected = json.loads(path.read_text())["sha256"]
        assert files.sha256(str(shard)) == expected, shard
    return len(reports)


@pytest.mark.parametrize(
    ("num_copies", "num_kills", "num_shards"),
    [(40, 2, 8), pytest.param(150, 20, 40, marks=pytest.mark.slow)],
)
def test_a_run_killed_at_any_moment_ends_with_the_same_shards(
    start, tmp_path, goldens, num_copies, num_kills, num_shards
):
    text = write_text(goldens, tmp_path / "text", num_copies)
    dupe_factor = 16
    whole = tmp_path / "whole"
    recipe = recipe_of(goldens / "vocab.txt", dupe_factor=dupe_factor)
    write([text], whole, recipe, num_shards)
    rng = random.Random()
    killed_at = []
    num_finished = 0
    for kill in range(num_kills):
        # At any moment of the work on a shard, a little further each time.
        writer = start(
            text,
            dupe_factor,
            num_shards,
            hit="kill",
            num_finished=(num_shards - 3) * (kill + 1) // num_kills,
            share=rng.random(),
        )
        # A run that ended before it was hit would prove nothing.
        assert end(writer)[0] == -signal.SIGKILL, killed_at
        before, num_finished = num_finished, check_unfinished(tmp_path / "out")
        assert num_finished >= before
        killed_at.append(num_finished)
    code, said = end(start(text, dupe_factor, num_shards))
    assert code == 0, said
    assert f"{num_finished} of {num_shards} shards are finished alr" in said
    assert contents(tmp_path / "out") == contents(whole), killed_at


@pytest.mark.all
@pytest.mark.parametrize("num_processes", [1, 2])
def test_an_interrupted_run_ends_soon_and_keeps_what_it_has(
    start, goldens, tmp_path, num_processes
):
    writer = start(
        write_text(goldens, tmp_path / "text", 30),
        dupe_factor=40,
        num_processes=num_processes,
        hit="interrupt",
        num_finished=1,
    )
    code, said = end(writer)
    assert code != 0 and "KeyboardInterrupt" in said
    num_finished = check_unfinished(tmp_path / "out")
    num_before = int(re.search(r"hit after (\d+) shards", said)[1])
    # Soon: each process has finished the shard that it was at, at most.
    assert 1 <= num_before <= num_finished <= num_before + num_processes
    assert f"{num_finished} of 8 shards are finished and kept; the same" in said
    # Nothing half-written is left: whole shards and their reports only.
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert len(names) == 2 * num_finished


@pytest.mark.all
def test_a_killed_worker_ends_the_run_and_loses_no_finished_shard(
    start, goldens, tmp_path
):
    text = write_text(goldens, tmp_path / "text", 30)
    writer = start(text, dupe_factor=40, hit="kill a worker", num_finished=1)
    code, said = end(writer)
    assert code != 0
    *_, last = said.rstrip().splitlines()
    assert "OSError: a worker process was killed, probably because" in last
    assert "with fewer --num_processes" in last
    num_finished = check_unfinished(tmp_path / "out")
    assert num_finished >= 1
    again = start(
        text, dupe_factor=40, hit="kill", num_finished=num_finished + 1
    )
    assert f"{num_finished} of 8 shards are finished already." in end(again)[1]
