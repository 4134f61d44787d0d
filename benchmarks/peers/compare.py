r"""Measures this project against its peers, the sides taking turns.

  make peers
  python benchmarks/peers/compare.py --data=DIR --json=results.jsonl
  python benchmarks/peers/compare.py --only=latency_minilm_16 --data=DIR

DIR holds vocab/uncased/vocab.txt, novels/novels_train.txt.gz (or --text),
glue/CoLA, glue/RTE and squad/dev-v1.1.json; pretraining and full-length
prediction need none of it. Each case runs every side in a process of its own,
which stays alive: one warm-up each, then A B A B ... Prints, for each case, a
line to read and the same as a line of JSON, which --json collects. A ratio says
how many times as long a peer takes as this project does; of a peer with several
ways to do the work, the fastest counts.
"""

import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from absl import app, flags

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.peers import inputs  # noqa: E402
from benchmarks.peers.cases import CASES, PREDICTIONS, ROWS  # noqa: E402

FLAGS = flags.FLAGS
_HERE = Path(__file__).resolve().parent
_VOCAB = "vocab/uncased/vocab.txt"


def define_flags():
    """What is measured, and on what."""
    flags.DEFINE_multi_enum("only", [], list(CASES), "Cases; none = all.")
    flags.DEFINE_string("data", None, "Folder of the data; see above.")
    flags.DEFINE_string("text", None, "Text to tokenize; default: the novels.")
    flags.DEFINE_float("megabytes", 0, "Of the text; 0 = all of it.")
    flags.DEFINE_string("json", None, "File that results are appended to.")
    flags.DEFINE_integer("turns", 0, "Runs of each side; 0 = the case's own.")
    flags.DEFINE_integer("sequences", 0, "To predict; 0 = the case's own.")
    flags.DEFINE_integer("threads", 2, "Of every side.")
    flags.DEFINE_bool("compile", False, "Also torch.compile in pretraining.")
    flags.DEFINE_string(
        "environment",
        str(ROOT / ".venv-peers"),
        "Virtual environment of the peers, of `make peers`.",
    )
    flags.DEFINE_string(
        "model_garden_environment",
        str(ROOT / ".venv-model-garden"),
        "That of tf-models-official, of `make peers-model-garden`; left out of "
        "the comparison if it is not there.",
    )


class Worker:
    """A side: a process that answers; see protocol.py.

    Args:
      script: of the side, beside this file.
      python: of its environment.
      request: the case.

    Attributes:
      ways: names of its ways to do the work.
      facts: what it says of its libraries.
    """

    def __init__(self, script, python, request):
        self._name = f"{python} {script}"
        self._log = Path(request["folder"]) / "log"
        environment = os.environ | {
            "OMP_NUM_THREADS": str(FLAGS.threads),
            "RAYON_NUM_THREADS": str(FLAGS.threads),
            "TOKENIZERS_PARALLELISM": "true",
            "HF_HUB_OFFLINE": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [python, _HERE / script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        answer = self._ask(request)
        self.ways, self.facts = answer["ways"], answer["facts"]

    def ask(self, way):
        """Result of a way: seconds of each call of it."""
        return self._ask({"way": way})["result"]

    def close(self):
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def _ask(self, request):
        print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        answer = json.loads(line or "{}")
        if not line or "error" in answer:
            told = answer.get("error") or self._log.read_text()[-3000:]
            raise RuntimeError(f"{self._name} failed:\n{told}")
        return answer


def _sides(targets):
    """Name -> (script, python) of ours and the peers that there are."""
    peers = Path(FLAGS.environment) / "bin/python"
    if not peers.exists():
        raise app.UsageError(f"{peers} is not there; run `make peers` first.")
    sides = {"ours": ("ours.py", sys.executable)}
    for peer in targets:
        if peer != "tf-models-official":
            sides[peer] = ("theirs.py", peers)
        elif (Path(FLAGS.model_garden_environment) / "bin/python").exists():
            python = Path(FLAGS.model_garden_environment) / "bin/python"
            sides[peer] = ("model_garden.py", python)
    return sides


def _in_data(path):
    """A file of --data."""
    if not FLAGS.data:
        raise app.UsageError(f"give --data, a folder with {path}.")
    return str(Path(FLAGS.data) / path)


def _write_input(case, folder):
    """Writes what all sides read.

    Args:
      case: the case.
      folder: where to.

    Returns:
      The file; and how much of the case's unit it holds.
    """
    texts, arrays = folder / "texts.json", folder / "input.npz"
    if case.kind == "latency":
        vocab = _in_data(_VOCAB)
        inputs.write_texts(texts, inputs.texts_of_length(vocab, case.length))
        return texts, 1
    if case.kind.startswith("tokenizing"):
        path = FLAGS.text or _in_data("novels/novels_train.txt.gz")
        lines, size = inputs.read_text(path, FLAGS.megabytes)
        inputs.write_texts(texts, lines)
        return texts, size / 1e6
    if case.kind == "pretraining":
        made = inputs.pretraining_batch(ROWS, case.length, PREDICTIONS)
        np.savez(arrays, **made)
        return arrays, 1
    made = _sequences(case)
    np.savez(arrays, **made)
    return arrays, len(made["sizes"])


def _sequences(case):
    """Those that a case predicts."""
    count = FLAGS.sequences or case.count
    if not case.data:
        return inputs.full_sequences(count, case.length)
    vocab = _in_data(_VOCAB)
    if case.data == "squad":
        path = _in_data("squad/dev-v1.1.json")
        return inputs.squad_sequences(path, vocab, case.length, count)
    folder = _in_data({"cola": "glue/CoLA", "rte": "glue/RTE"}[case.data])
    return inputs.glue_sequences(case.data, folder, vocab, case.length, count)


def measure(case):
    """Runs the sides in turns.

    Args:
      case: the case.

    Returns:
      (side, way) -> seconds of each call; the facts of each side; how much of
      the case's unit a call does; what ours says of its arithmetic, or {}.
    """
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        path, amount = _write_input(case, folder)
        request = case.request() | {
            "input": str(path),
            "threads": FLAGS.threads,
            "compile": FLAGS.compile,
            "vocab": _in_data(_VOCAB) if case.needs_vocab else "",
        }
        workers, seconds = {}, defaultdict(list)
        try:
            for side, (script, python) in _sides(case.targets).items():
                own = folder / side
                own.mkdir()
                if request["vocab"]:
                    vocab = Path(request["vocab"]).read_bytes()
                    (own / "vocab.txt").write_bytes(vocab)
                workers[side] = Worker(
                    script, python, request | {"folder": str(own)}
                )
            _take_turns(workers, FLAGS.turns or case.turns, seconds)
            arithmetic = {}
            if case.share:
                best = min(seconds["ours", ""])
                arithmetic = {
                    "gflops": workers["ours"].ask("=flops") / best / 1e9,
                    "matrix_rate": workers["ours"].ask("=matrix_rate"),
                    "own_shapes": workers["ours"].ask("=products") / best,
                }
        finally:
            for worker in workers.values():
                worker.close()
        facts = {side: worker.facts for side, worker in workers.items()}
        return seconds, facts, amount, arithmetic


def _take_turns(workers, turns, seconds):
    """Warms up, and then times: A B A B ..."""
    for turn in range(turns + 1):
        for side, worker in workers.items():
            for way in worker.ways:
                times = worker.ask(way)
                if turn:
                    seconds[side, way] += times


def result(name, case):
    """Runs a case.

    Args:
      name: of the case.
      case: the case.

    Returns:
      What the line of JSON holds.
    """
    load = os.getloadavg()[0]
    seconds, facts, amount, arithmetic = measure(case)
    ours = seconds.pop(("ours", ""))
    found = {
        "case": name,
        "date": time.strftime("%Y-%m-%d"),
        "unit": case.unit,
        "ours": _figures(case, ours, amount),
        "peers": {
            peer: _against(case, peer, seconds, ours, amount)
            for peer in case.targets
            if peer in facts
        },
        "not_measured": [peer for peer in case.targets if peer not in facts],
        "turns": FLAGS.turns or case.turns,
        "threads": FLAGS.threads,
        "libraries": facts,
        "load_before": load,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
    }
    found["met"] = all(peer["met"] for peer in found["peers"].values())
    if arithmetic:
        share = arithmetic["gflops"] / arithmetic["matrix_rate"]
        found |= arithmetic | {"share": share, "target_share": case.share}
        found["met"] &= found["own_shapes"] >= case.share
    if case.rate:
        found["target_rate"] = case.rate
        found["met"] &= found["ours"]["best"] >= case.rate
    return found


def _against(case, peer, seconds, ours, amount):
    """A peer's figures and its ratios to ours."""
    ways = {
        way: times for (side, way), times in seconds.items() if side == peer
    }
    fastest = min(ways, key=lambda way: _typical(case, ways[way]))
    theirs = ways[fastest]
    found = {
        "ways": {way: _figures(case, x, amount) for way, x in ways.items()},
        "fastest": fastest,
        "ratio": _typical(case, theirs) / _typical(case, ours),
        "ratio_of_medians": statistics.median(theirs) / statistics.median(ours),
        "target": case.targets[peer],
    }
    found["met"] = found["ratio"] >= found["target"]
    if case.kind == "latency":
        found["ratio_of_p99"] = _p99(theirs) / _p99(ours)
        found["met"] &= found["ratio_of_p99"] >= found["target"]
    return found


def _typical(case, seconds):
    """What ratios are of: the best, of latency the median."""
    return (
        statistics.median(seconds) if case.kind == "latency" else min(seconds)
    )


def _p99(seconds):
    return float(np.percentile(seconds, 99))


def _figures(case, seconds, amount):
    """Times in the case's unit."""
    values = {"best": min(seconds), "median": statistics.median(seconds)}
    if case.kind == "latency":
        values["p99"] = _p99(seconds)
    return {
        key: value * 1e3 if case.unit == "ms" else amount / value
        for key, value in values.items()
    }


def line(found):
    """A result to read."""

    def figures(values):
        shown = (f"{key} {value:.4g}" for key, value in values.items())
        return f"{', '.join(shown)} {found['unit']}"

    parts = [f"ours {figures(found['ours'])}"]
    for name, peer in found["peers"].items():
        parts += [
            f"{name}{f' ({way})' if way else ''} {figures(values)}"
            for way, values in peer["ways"].items()
        ]
        ratio = f"{peer['ratio']:.2f}"
        if "ratio_of_p99" in peer:
            ratio += f", of p99 {peer['ratio_of_p99']:.2f},"
        parts.append(f"ratio to {name} {ratio} (target {peer['target']:g})")
    parts += [f"{name} not measured" for name in found["not_measured"]]
    if "share" in found:
        parts.append(
            f"{found['gflops']:.0f} GFLOP/s = {found['own_shapes']:.0%} of the "
            f"matrix rate at its own shapes (target "
            f"{found['target_share']:.0%}), {found['share']:.0%} of that of "
            f"one large product, {found['matrix_rate']:.0f}"
        )
    if "target_rate" in found:
        parts.append(f"target {found['target_rate']:g} {found['unit']}")
    met = "met" if found["met"] else "NOT met"
    return f"{found['case']}: {'; '.join(parts)}: {met}"


def main(_):
    """Measures the cases one by one."""
    for name in FLAGS.only or CASES:
        found = result(name, CASES[name])
        print(line(found))
        print(json.dumps(found), flush=True)
        if FLAGS.json:
            with open(FLAGS.json, "a", encoding="utf-8") as file:
                print(json.dumps(found), file=file)


if __name__ == "__main__":
    define_flags()
    app.run(main)
