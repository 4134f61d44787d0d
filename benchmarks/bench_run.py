"""What the rows of bench.py are measured with, and what they come to."""

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import bench_inputs
from benchmarks.bench_inputs import ROOT, VOCAB
from benchmarks.peers.cases import CASES

MET, NOT_MET, IN_PART = "yes", "NO", "in part"
NOT_MEASURED, PICTURE = "not measured", "picture"


@dataclasses.dataclass(frozen=True)
class Measured:
    """A row's result.

    Attributes:
      text: the measured values, to read.
      target: likewise.
      met: one of the constants above.
      values: what the text was made of, as JSON may hold it.
    """

    text: str
    target: str
    met: str
    values: dict


@dataclasses.dataclass(frozen=True)
class Bench:
    """What every row is measured with.

    Attributes:
      data: folder of the data, real or made.
      text: text file; "" = the data's.
      minilm: folder with MiniLM's weights as `tf1/`; "" = random ones.
      folder: for what is written on the way.
      quick: few repeats, little data: shows that all works, no more.
      environment: of the peers, see `compare.py`.
      model_garden_environment: likewise.
    """

    data: Path
    text: str
    minilm: str
    folder: Path
    quick: bool
    environment: str
    model_garden_environment: str

    @property
    def vocab(self):
        """The vocabulary."""
        return self.data / VOCAB

    def pick(self, full, quick):
        """One of two values."""
        return quick if self.quick else full

    def text_file(self, megabytes=0):
        """A plain text of some size; 0 = as long as it is."""
        name = f"{megabytes:g}mb.txt" if megabytes else "text.txt"
        source = self.text or self.data / bench_inputs.NOVELS
        return bench_inputs.text_of_size(source, self.folder / name, megabytes)

    def run(self, script, *arguments):
        """Runs a program of the project.

        Args:
          script: from the root.
          arguments: of it.

        Returns:
          What it printed.

        Raises:
          RuntimeError: it failed; with the end of what it said.
        """
        done = subprocess.run(
            [sys.executable, script, *map(str, arguments)],
            cwd=ROOT,
            env=_environment(),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            said = (done.stdout + done.stderr)[-3000:]
            raise RuntimeError(
                f"{script} ended with {done.returncode}:\n{said}"
            )
        return done.stdout

    def model_file(self):
        """bert_config.json of MiniLM's sizes."""
        if self.minilm:
            return Path(self.minilm) / "tf1/bert_config.json"
        path = self.folder / "bert_config.json"
        model = CASES["latency_minilm_16"].request()["model"]
        path.write_text(json.dumps(model))
        return path


def _environment():
    return os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"}


def judged(condition):
    """MET or NOT_MET."""
    return MET if condition else NOT_MET


def seconds_to(command, mark):
    """Seconds from a launch until a program writes a line with a mark.

    Args:
      command: the program and its arguments.
      mark: part of a line on its standard error.

    Raises:
      RuntimeError: it failed, or wrote none.
    """
    began, found, said = time.perf_counter(), None, []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stderr:
            said.append(line)
            if found is None and mark in line:
                found = time.perf_counter() - began
    if process.returncode or found is None:
        raise RuntimeError(
            f"{command[1]} ended with {process.returncode}; {mark!r} was "
            f"{'not ' if found is None else ''}printed:\n"
            + "".join(said)[-3000:]
        )
    return found
