"""Measures cases, this project and its peers in turns.

--data holds vocab/uncased/vocab.txt, novels/novels_train.txt.gz (or --text),
glue/CoLA, glue/RTE and squad/{train,dev}-v1.1.json; pretraining, reading and
full-length prediction need none of it. The fastest way of a peer counts. Prints
a line to read and a line of JSON for each case.
"""

import contextlib
import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.peers import inputs, protocol
from benchmarks.peers.cases import ARITHMETIC, CASES, ORIGINAL
from benchmarks.programs import (
    ROOT,
    chosen,
    define_only,
    processor,
    python_of,
)
from data.settings import Settings, setting, switch
from training import program
from training.config import flags

_WITHOUT_DATA = ("pretraining", "reading")
# Peer that may be left out, if its environment is not there -> its script, and
# the environment.
_OPTIONAL = {
    "tf-models-official": ("model_garden.py", "model-garden"),
    ORIGINAL: ("original.py", "original"),
}


class Options(Settings):
    """How to measure."""

    data: str = setting("", "Folder of the data; see peers/compare.py.")
    text: str = setting("", "Text to tokenize; default: the novels.")
    megabytes: float = setting(0.0, "Size of the text; 0 = all of it.")
    turns: int = setting(0, "Runs of each side; 0 = the number of the case.")
    threads: int = setting(2, "Threads of each side; 0 = no limit.")


class _MoreOptions(Options):
    """What is measured."""

    alone: bool = switch("Measure this project without its peers.")
    json: str = setting("", "File to append the results to.")


def alone(case):
    """A case without its peers."""
    return dataclasses.replace(case, targets={})


def _sides(targets):
    """Name -> (script, python) of ours and of the installed peers."""
    folder = ROOT / "benchmarks"
    sides = {"ours": (folder / "ours/worker.py", sys.executable)}
    for peer in targets:
        script, environment = _OPTIONAL.get(peer, ("theirs.py", "peers"))
        python = python_of(environment)
        if python.exists():
            sides[peer] = (folder / "peers" / script, python)
        elif peer not in _OPTIONAL:
            raise ValueError(
                f"{python} does not exist; run `make peers` first."
            )
    return sides


def _make_request(case, options, more, folder):
    """What the sides receive; and how much of its unit a call does."""
    request = case.request() | more | {"threads": options.threads}
    request["turns"] = options.turns or case.turns
    random = case.kind == "prediction" and not case.data
    if not random and case.kind not in _WITHOUT_DATA:
        if not options.data:
            raise ValueError(
                f"{case.kind} cases read data: give --data=DIR, a folder as "
                "described in benchmarks/peers/compare.py."
            )
        request["vocab"] = f"{options.data}/{inputs.VOCAB}"
    path, amount = inputs.write(request, options, folder)
    return request | {"input": str(path)}, amount


def _measure(case, options, more):
    """Runs the sides of a case in turns.

    Returns side -> way -> seconds of each call; side -> its libraries; how much
    of the case's unit a call does; name of each of `case.asks` -> answer.
    """
    sides, workers = _sides(case.targets), {}
    with tempfile.TemporaryDirectory() as folder:
        request, amount = _make_request(case, options, more, Path(folder))
        with contextlib.ExitStack() as stack:
            for side, command in sides.items():
                own = Path(folder, side)
                own.mkdir(parents=True)  # a peer may be OWNER/REPOSITORY
                asked = request | {"folder": str(own)}
                worker = protocol.Worker(*command, asked)
                workers[side] = stack.enter_context(contextlib.closing(worker))
            seconds = protocol.take_turns(workers, request["turns"])
            answers = {way: workers["ours"].ask(way) for way in case.asks}
    facts = {side: worker.facts for side, worker in workers.items()}
    return seconds, facts, amount, answers


def result(case, options, **more):
    """Measures a case and returns the values of its line of JSON.

    `more` are values that replace those of the case's request. Raises
    ValueError if data or a peer's environment is missing.
    """
    load = os.getloadavg()[0]
    seconds, facts, amount, answers = _measure(case, options, more)
    ours, *_ = seconds["ours"].values()
    peers = {
        peer: _against(case, peer, seconds[peer], ours, amount)
        for peer in case.targets
        if peer in facts
    }
    found = {
        "date": time.strftime("%Y-%m-%d"),
        "unit": case.unit,
        "ours": _figures(case, ours, amount),
        "ways": _all_figures(case, seconds["ours"], amount),
        "peers": peers,
        "not_measured": [peer for peer in case.targets if peer not in facts],
        "turns": options.turns or case.turns,
        "threads": options.threads,
        "libraries": facts,
        "load_before": load,
        "machine": processor(),
        "answers": answers,
    }
    if case.asks == ARITHMETIC:
        found |= _shares(min(ours), *(answers[way] for way in ARITHMETIC))
    met = [peer["met"] for peer in peers.values()]
    met.append(found.get("own_shapes", 0) >= case.share)
    met.append(found["ours"].get("best", 0) >= case.rate)
    return found | {"met": all(met)}


def _shares(seconds, flops, matrix_rate, products):
    """What the machine's matrix products say of a time."""
    gflops = flops / seconds / 1e9
    return {
        "gflops": gflops,
        "matrix_rate": matrix_rate,
        "share": gflops / matrix_rate,
        "own_shapes": products / seconds,
    }


def _against(case, peer, ways, ours, amount):
    """Figures of a peer and its ratios to ours."""

    def typical(seconds):
        is_latency = case.kind == "latency"
        return statistics.median(seconds) if is_latency else min(seconds)

    fastest = min(ways, key=lambda way: typical(ways[way]))
    theirs = ways[fastest]
    found = {
        "ways": _all_figures(case, ways, amount),
        "fastest": fastest,
        "ratio": typical(theirs) / typical(ours),
        "ratio_of_medians": statistics.median(theirs) / statistics.median(ours),
        "target": case.targets[peer],
    }
    found["met"] = found["ratio"] >= found["target"]
    if case.kind == "latency":
        found["ratio_of_p99"] = _p99(theirs) / _p99(ours)
        found["met"] &= found["ratio_of_p99"] >= found["target"]
    return found


def _p99(seconds):
    return float(np.percentile(seconds, 99))


def _figures(case, seconds, amount):
    """Times in the case's unit."""
    values = {"best": min(seconds), "median": statistics.median(seconds)}
    if case.kind == "latency":
        values["p99"] = _p99(seconds)
    if case.kind == "finetuning":
        values = {"epoch": sum(seconds)}  # each turn is a part of it
    factor = {"ms": 1e3, "s": 1}.get(case.unit)
    return {
        key: value * factor if factor else amount / value
        for key, value in values.items()
    }


def _all_figures(case, ways, amount):
    return {way: _figures(case, x, amount) for way, x in ways.items()}


def text(found):
    """A result of `result` as text, without targets."""
    shown = (f"{key} {x:.4g}" for key, x in found["ours"].items())
    parts = [f"ours {', '.join(shown)} {found['unit']}"]
    if len(found["ways"]) > 1:
        parts += [
            f"{way} {next(iter(figures.values())):.4g}"
            for way, figures in found["ways"].items()
        ]
    for peer, against in found["peers"].items():
        ratio = f"{peer} {against['ratio']:.2f} times as long"
        if "ratio_of_p99" in against:
            ratio += f" (p99 {against['ratio_of_p99']:.2f})"
        parts.append(ratio)
    parts += [f"{peer} not measured" for peer in found["not_measured"]]
    if "share" in found:
        parts.append(
            f"{found['own_shapes']:.0%} of the matrix rate at its own shapes, "
            f"{found['share']:.0%} of that of one large product"
        )
    for way, value in found["answers"].items():
        if way not in ARITHMETIC and isinstance(value, float):
            parts.append(f"{way[1:]} {value:.4g}")
    return "; ".join(parts)


def targets(case):
    """The targets of a case, as text."""
    wanted = [f"{peer} {least:g}" for peer, least in case.targets.items()]
    if wanted:
        wanted[0] = f"times as long as ours: {wanted[0]}"
    if case.share:
        wanted.append(f"{case.share:.0%} at its own shapes")
    if case.rate:
        wanted.append(f"{case.rate:g} {case.unit}")
    return ", ".join(wanted)


def main():
    """Measures the cases one by one; without --only those that have peers."""
    options, only = flags.read(_MoreOptions), flags.value("only")
    for name in chosen(only, CASES):
        case = CASES[name]
        if not (only or case.targets):
            continue
        case = alone(case) if options.alone else case
        found = {"case": name} | result(case, options)
        print(f"{name}: {text(found)} (target: {targets(case) or 'none'})")
        print(json.dumps(found), flush=True)
        if options.json:
            with open(options.json, "a", encoding="utf-8") as file:
                print(json.dumps(found), file=file)


if __name__ == "__main__":
    flags.define(_MoreOptions)
    define_only(CASES)
    program.run(main)
