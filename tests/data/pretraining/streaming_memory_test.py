import contextlib
import gzip
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from tests.data.workers_support import processes_of

pytestmark = [pytest.mark.slow, pytest.mark.alone]

WRITER = """
import pathlib
import sys
from data.pretraining.data_options import PretrainingDataOptions
from data.pretraining.recipe import Recipe
from tests.data.pretraining.support import write

if __name__ == "__main__":
    text, folder, vocab = sys.argv[1:]
    options = PretrainingDataOptions(dupe_factor=2)
    recipe = Recipe(options, vocab, do_lower_case=True)
    write([text], pathlib.Path(folder), recipe, 4, num_processes=2)
"""


def memory_of_session(session):
    """Proportional set size of all processes of a session, in bytes."""
    total = 0
    for process_id in processes_of(session):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            rollup = pathlib.Path(f"/proc/{process_id}/smaps_rollup")
            for line in rollup.read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def peak_memory(text, folder, vocab, root):
    """Runs the writer with two processes; returns the most that all had."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(text), str(folder), str(vocab)],
        cwd=root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    peak = 0
    try:
        while process.poll() is None:
            peak = max(peak, memory_of_session(process.pid))
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    shutil.rmtree(folder)
    return peak


def write_novels(path, real_data, num_bytes):
    """Repeats the novels, whole, until a size is reached."""
    with gzip.open(real_data / "novels/novels_train.txt.gz") as file:
        novels = file.read().rstrip() + b"\n\n"
    with open(path, "wb") as file:
        while file.tell() < num_bytes:
            file.write(novels)


def test_memory_does_not_grow_with_the_corpus(
    tmp_path, pytestconfig, real_data, capsys
):
    vocab = real_data / "vocab/uncased/vocab.txt"
    peaks = []
    for num_bytes in 10**8, 10**9:
        write_novels(tmp_path / "text", real_data, num_bytes)
        places = tmp_path / "text", tmp_path / "out", vocab
        peaks.append(peak_memory(*places, pytestconfig.rootpath))
        with capsys.disabled():
            print(f"\n{num_bytes:,} bytes: {peaks[-1] / 1e6:,.0f} MB")
    (tmp_path / "text").unlink()
    assert peaks[1] < 1.5e9
    # Room for the moments at which samples are taken.
    assert peaks[1] < 1.2 * peaks[0]
