"""The rows of bench.py's table: what each measures, and its target.

The targets of cases stand in `peers/cases.py`, all others here.
"""

import dataclasses
import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import data, programs
from benchmarks.peers import compare
from benchmarks.peers.cases import CASES, OBJECTIVES, model_of
from benchmarks.peers.inputs import VOCAB, novels
from benchmarks.peers.protocol import elapsed
from data.settings import setting

# Values of the column "met".
_MET, _NOT_MET, _IN_PART, _NO_TARGET = "yes", "NO", "in part", "no target"
# Least share of (padded / real wordpieces) that an epoch is faster by.
_EPOCH_SHARE = 0.7
_ORIGINAL_EXAMPLES_PER_S = 2970  # of the original's program, length 128
_RECORDS_SPEED_UP = 20
# What "linear" and "flat" mean on a machine whose speed varies by a tenth: the
# gain of a second process; the cost in time of a further MB of text; and the
# memory for twice the text (from 40 to 80 MB; below, buffers of a fixed size
# fill up).
_LEAST_OF_TWO_PROCESSES = 1.6
_MOST_COST_GROWTH = 1.2
_MOST_MEMORY_GROWTH = 1.2
_READING_EXAMPLES_PER_S = 100_000
_HELP_S = 3
_FIRST_STEP_S = 20


@dataclasses.dataclass(frozen=True)
class Measured:
    """The result of a row: `values` may be anything that JSON can hold."""

    text: str
    target: str
    met: str
    values: dict


class Bench(compare.Options):
    """What every row is measured with."""

    quick: bool = setting(False, "Few repeats: figures mean nothing.")
    minilm: str = setting("", "Folder with MiniLM's weights in tf1/.")
    output_dir: str = setting(str(programs.ROOT / "build"), "For the results.")

    @property
    def folder(self):
        """The folder for temporary files."""
        return Path(self.output_dir, "bench")

    def pick(self, full, quick):
        """One of two values."""
        return quick if self.quick else full

    def alone(self, case, turns, **more):
        """Measures a case without peers on all cores; see `compare.result`."""
        options = self.replace(turns=turns, threads=0)
        return compare.result(compare.alone(case), options, **more)


def _judged(condition):
    return _MET if condition else _NOT_MET


def _finetuning(case, bench):
    """An epoch compared with one padded to the maximum."""
    quick = {"steps": 6, "padded_steps": 6} if bench.quick else {}
    found = bench.alone(case, case.turns, **quick)
    ratio = found["answers"]["=padded_by_real"]
    ours, padded = (way["epoch"] for way in found["ways"].values())
    gain, target = padded / ours, _EPOCH_SHARE * ratio
    return Measured(
        f"{ours:.1f} s (trimmed, grouped), padded {padded:.1f} s: "
        f"{gain:.2f} times as fast = {gain / ratio:.0%} of {ratio:.2f} "
        "padded / real",
        f"{target:.2f} times = {_EPOCH_SHARE:.0%}",
        _judged(gain >= target),
        found | {"speed_up": gain},
    )


def _records_point(bench, size, processes, length):
    """The best run of making records from a text of so many megabytes."""
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        text = f"{folder}/text"
        data.text_of_size(novels(bench), text, size)
        runs = [
            programs.write_records(
                input_file=text,
                vocab_file=f"{bench.data}/{VOCAB}",
                num_processes=processes,
                max_seq_length=length,
                max_predictions_per_seq=round(0.15 * length + 1),
                dupe_factor=10,
            )
            for _ in range(bench.pick(2, 1))
        ]
    best = min(runs, key=lambda run: run["seconds"])
    return {"text_mb": size, "processes": processes} | best


def _records(bench):
    """Making pretraining records, from texts of several sizes."""
    sizes = bench.pick((5, 20, 40, 80), (1.5, 3, 6))
    points = [
        _records_point(bench, size, processes, 128)
        for size in sizes
        for processes in (1, 2)
    ]
    long = _records_point(bench, sizes[1], 2, 512)
    at_512 = long["examples"] / long["seconds"]
    found = records_growth(points)
    gain = found["rates"][1] / found["rates"][0]
    target = _RECORDS_SPEED_UP * _ORIGINAL_EXAMPLES_PER_S
    return Measured(
        f"2 processes after start-up {found['rates'][1]:,.0f} examples/s, "
        f"{gain:.2f} times one process (at 512, start-up included, "
        f"{at_512:,.0f}); {sizes[-1]:g} MB of text, not {sizes[-2]:g}: a "
        f"further MB costs {found['cost']:.2f} times as much, peak memory is "
        f"{found['memory']:.2f} times",
        f"{target:,} at 128 = {_RECORDS_SPEED_UP} x the original; linear, "
        f"flat: at least {_LEAST_OF_TWO_PROCESSES}, at most "
        f"{_MOST_COST_GROWTH} and {_MOST_MEMORY_GROWTH} times",
        _judged(
            found["rates"][1] >= target
            and gain >= _LEAST_OF_TWO_PROCESSES
            and found["cost"] <= _MOST_COST_GROWTH
            and found["memory"] <= _MOST_MEMORY_GROWTH
        ),
        {"points": points, "at_512": at_512, **found},
    )


def records_growth(points):
    """How the cost of making records grows with the text of the points.

    Start-up is part of every point and therefore of no difference. Returns
    `rates`: examples/s between the first and the last text, on 1 and 2
    processes; `cost`: seconds of a MB between the last two texts, divided by
    those before; `memory`: peak of the last text divided by that of the one
    before. Of cost and memory the worse of 1 and 2 processes.
    """
    rates, costs, memory = [], [], []
    for processes in (1, 2):
        row = [point for point in points if point["processes"] == processes]
        text, seconds, examples, peak = (
            np.array([point[key] for point in row])
            for key in ("text_mb", "seconds", "examples", "peak_mb")
        )
        more = (x[-1] - x[0] for x in (examples, seconds))
        rates.append(float(np.divide(*more)))
        cost = np.diff(seconds[[0, -2, -1]]) / np.diff(text[[0, -2, -1]])
        costs.append(float(cost[1] / cost[0]))
        memory.append(float(peak[-1] / peak[-2]))
    return {"rates": rates, "cost": max(costs), "memory": max(memory)}


def _reading(bench):
    """Batches of records, as training takes them."""
    quick = {"seconds": 0.3, "num_examples": 16_000}
    more = bench.pick({"seconds": 1.0}, quick)
    found = bench.alone(CASES["reading_static"], bench.pick(3, 1), **more)
    rate, target = found["ours"]["best"], _READING_EXAMPLES_PER_S
    texts = f"{rate:,.0f} examples/s", f"{target:,} examples/s"
    return Measured(*texts, _judged(rate >= target), found)


def _start_up(seconds, target):
    """The result of a row whose target is the best time of a start."""
    text = f"{min(seconds):.1f} s, at worst {max(seconds):.1f} s"
    met = _judged(min(seconds) <= target)
    return Measured(text, f"{target} s", met, {"seconds": seconds})


def _help(bench):
    """Wall time of --help."""
    ask = functools.partial(programs.run_program, "run_classifier.py", "--help")
    return _start_up([elapsed(ask) for _ in range(bench.pick(5, 1))], _HELP_S)


def _first_step(bench):
    """From the start of run_classifier.py to its first update."""
    folder, weights = bench.folder, None
    config = folder / "bert_config.json"
    if bench.minilm:
        config = f"{bench.minilm}/tf1/bert_config.json"
        weights = f"{bench.minilm}/tf1/bert_model.ckpt"
    else:
        config.write_text(json.dumps(model_of("minilm")))
    small = data.small_task(bench.data, folder, 32)
    seconds = []
    for _ in range(bench.pick(2, 1)):
        with tempfile.TemporaryDirectory(dir=folder) as output_dir:
            passed = programs.seconds_to(
                "training: 1/1 steps",
                "run_classifier.py",
                task_name="cola",
                do_train=True,
                train_batch_size=32,
                num_train_epochs=1,
                log_steps=1,
                data_dir=small,
                vocab_file=f"{bench.data}/{VOCAB}",
                bert_config_file=config,
                init_checkpoint=weights,
                output_dir=output_dir,
            )
            seconds.append(passed)
    return _start_up(seconds, _FIRST_STEP_S)


def _peers(case, bench):
    """A case beside the peers that are there."""
    target, options, more = compare.targets(case), bench, {}
    if bench.quick:
        options = bench.replace(turns=1, megabytes=0.5)
        more = {"count": 32}
    are_there = programs.python_of("peers").exists()
    found = compare.result(
        case if are_there else compare.alone(case), options, **more
    )
    text, met = compare.text(found), _judged(found["met"])
    if not are_there:
        text += "; peers not measured: make peers"
    if found["met"] and (found["not_measured"] or not are_there):
        met = _IN_PART
    return Measured(text, target, met, found)


def _objectives(bench):
    """A step of each objective, compared with that of masked LM."""
    best = {
        name: bench.alone(CASES[f"step, {name}"], bench.pick(15, 1))["ours"]
        for name in OBJECTIVES
    }
    base = best["pretraining"]["best"]
    ratios = (f"{name} {x['best'] / base:.2f}" for name, x in best.items())
    text = f"times masked LM's {base:.0f} ms: {', '.join(ratios)}"
    return Measured(text, "", _NO_TARGET, best)


def _rows() -> dict[str, Callable[[Bench], Measured]]:
    """Name -> function that measures the row, in the order of the table."""
    rows = {
        name: functools.partial(_finetuning, case)
        for name, case in CASES.items()
        if name.startswith("finetuning")
    }
    rows |= {
        "records": _records,
        "reading": _reading,
        "startup_help": _help,
        "startup_first_step": _first_step,
    }
    for name, case in CASES.items():
        if case.targets:
            rows[f"peers_{name}"] = functools.partial(_peers, case)
    return rows | {"step_by_objective": _objectives}


ROWS = _rows()
