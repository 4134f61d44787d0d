"""A run that is killed loses nothing and leaves nobody behind."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from data import files
from tests.data.pretraining.support import contents, recipe_of, write
from tests.data.pretraining.workers_test import wait_for

WRITER = """
import pathlib
import sys
from absl import logging
from tests.data.pretraining.support import recipe_of, write

if __name__ == "__main__":
    logging.set_verbosity(logging.INFO)
    folder, inputs, vocab, dupe_factor, num_shards, n = sys.argv[1:]
    write(
        [inputs],
        pathlib.Path(folder),
        recipe_of(vocab, dupe_factor=int(dupe_factor)),
        int(num_shards),
        num_processes=int(n),
    )
"""


class Writer:
    """A run of the writer in processes of its own."""

    def __init__(self, root, folder, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), *map(str, arguments)],
            cwd=root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.folder = folder

    def end(self):
        """Waits; returns the exit code and what it said."""
        said = self.process.communicate(timeout=60)[1]
        return self.process.returncode, said

    def processes(self):
        """The ids of all that it started, itself included, and still live."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) == self.process.pid and fields[0] != "Z":
                found.append(int(path.parent.name))
        return found

    def workers(self):
        return [
            i
            for i in self.processes()
            if b"spawn_main" in pathlib.Path(f"/proc/{i}/cmdline").read_bytes()
        ]

    def has_finished(self, count):
        return len(list(self.folder.glob("*.json"))) >= count

    def wait_for_shards(self, count):
        """Waits until some shards are finished, or the run is."""
        wait_for(
            lambda: self.has_finished(count) or self.process.poll() is not None
        )


@pytest.fixture
def make_text(goldens, tmp_path):
    def make(num_copies):
        corpus = (goldens / "pretraining_data/corpus.txt").read_text("utf-8")
        path = tmp_path / "text"
        path.write_text("\n\n".join([corpus.strip()] * num_copies), "utf-8")
        return path

    return make


@pytest.fixture
def start(goldens, pytestconfig, tmp_path):
    """Starts runs, and ends what a failed test leaves of them."""
    started = []

    def start(text, dupe_factor, num_shards=8, num_processes=2):
        writer = Writer(
            pytestconfig.rootpath,
            tmp_path / "out",
            text,
            goldens / "vocab.txt",
            dupe_factor,
            num_shards,
            num_processes,
        )
        started.append(writer)
        return writer

    yield start
    for writer in started:
        for process_id in writer.processes():
            os.kill(process_id, signal.SIGKILL)
        writer.process.communicate()


def wait_for_end(writer):
    """Waits until nobody is left of a run."""
    wait_for(lambda: not writer.processes())


def check_unfinished(folder):
    """What stands in the folder of a run that is not over."""
    names = {path.name for path in folder.iterdir()}
    assert not [n for n in names if ".incomplete-" not in n and "out-" in n]
    assert "out.manifest.json" not in names
    # A report stands for a whole shard, always.
    reports = [folder / name for name in names if name.endswith(".json")]
    for path in reports:
        shard = path.with_suffix("")
        expected = json.loads(path.read_text())["sha256"]
        assert files.sha256(str(shard)) == expected, shard
    return len(reports)


def kill_and_compare(start, text, tmp_path, goldens, num_kills, num_shards):
    dupe_factor = 16
    whole = tmp_path / "whole"
    recipe = recipe_of(goldens / "vocab.txt", dupe_factor=dupe_factor)
    write([text], whole, recipe, num_shards)
    rng = random.Random()
    killed_at = []
    num_finished = 0
    for kill in range(num_kills):
        writer = start(text, dupe_factor, num_shards)
        # At any moment of the work on a shard, a little further each time.
        writer.wait_for_shards((num_shards - 3) * (kill + 1) // num_kills)
        time.sleep(rng.uniform(0, 0.1))
        writer.process.kill()
        # A run that ended before it was hit would prove nothing.
        assert writer.end()[0] == -signal.SIGKILL, killed_at
        wait_for_end(writer)
        before, num_finished = num_finished, check_unfinished(tmp_path / "out")
        assert num_finished >= before
        killed_at.append(num_finished)
    code, said = start(text, dupe_factor, num_shards).end()
    assert code == 0, said
    assert f"{num_finished} of {num_shards} shards are finished alr" in said
    assert contents(tmp_path / "out") == contents(whole), killed_at


def test_a_run_killed_at_any_moment_ends_with_the_same_shards(
    start, make_text, tmp_path, goldens
):
    kill_and_compare(start, make_text(80), tmp_path, goldens, 3, 8)


@pytest.mark.slow
def test_a_run_killed_twenty_times_ends_with_the_same_shards(
    start, make_text, tmp_path, goldens
):
    kill_and_compare(start, make_text(150), tmp_path, goldens, 20, 40)


@pytest.mark.parametrize("num_processes", [1, 2])
def test_an_interrupted_run_ends_soon_and_keeps_what_it_has(
    start, make_text, tmp_path, num_processes
):
    writer = start(make_text(30), dupe_factor=40, num_processes=num_processes)
    writer.wait_for_shards(1)
    os.killpg(writer.process.pid, signal.SIGINT)  # as the terminal does for ^C
    end = time.monotonic() + 10
    code, said = writer.end()
    assert time.monotonic() < end
    assert code != 0 and "KeyboardInterrupt" in said
    num_finished = check_unfinished(tmp_path / "out")
    assert num_finished >= 1
    assert f"{num_finished} of 8 shards are finished and kept; the same" in said
    wait_for_end(writer)
    # Nothing half-written is left: whole shards and their reports only.
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert len(names) == 2 * num_finished


def test_a_killed_worker_ends_the_run_and_loses_no_finished_shard(
    start, make_text, tmp_path
):
    text = make_text(30)
    writer = start(text, dupe_factor=40)
    writer.wait_for_shards(1)
    os.kill(writer.workers()[0], signal.SIGKILL)
    code, said = writer.end()
    assert code != 0
    assert said.rstrip().endswith(
        "OSError: a worker process was killed, probably because memory ran "
        "out; run the same command with a smaller --num_processes."
    )
    num_finished = check_unfinished(tmp_path / "out")
    assert num_finished >= 1
    wait_for_end(writer)
    again = start(text, dupe_factor=40)
    again.wait_for_shards(num_finished + 1)
    again.process.kill()
    assert f"{num_finished} of 8 shards are finished already." in again.end()[1]
