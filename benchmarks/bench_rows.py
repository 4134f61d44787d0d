"""The rows of bench.py's table: what each runs, and its target.

Targets of what has peers stand in `peers/cases.py`, all others here.
"""

import functools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import bench_inputs, bench_lines
from benchmarks.bench_inputs import ROOT
from benchmarks.bench_run import (
    IN_PART,
    NOT_MEASURED,
    PICTURE,
    Bench,
    Measured,
    judged,
    seconds_to,
)
from benchmarks.peers.cases import CASES

# Least share of (padded / real wordpieces) that an epoch is faster by.
_EPOCH_SHARE = 0.7
_ORIGINAL_EXAMPLES_PER_S = 2970  # of the original's program, length 128
_RECORDS_SPEED_UP = 20
# "Linear" and "flat", of a machine whose speed varies by a tenth: what a
# second process gains; what a further MB of text costs in time, and twice the
# text in memory (from 40 to 80 MB; below, buffers of a fixed size fill up).
_LEAST_OF_TWO_PROCESSES = 1.6
_MOST_COST_GROWTH = 1.2
_MOST_MEMORY_GROWTH = 1.2
_READING_EXAMPLES_PER_S = 100_000
_HELP_S = 3
_FIRST_STEP_S = 20


def _pretraining(case, bench):
    """A training step against the machine's matrix products."""
    model = case.request()["model"]
    found = bench_lines.train_step(
        bench.run(
            "benchmarks/train_step.py",
            f"--layers={model['num_hidden_layers']}",
            f"--hidden={model['hidden_size']}",
            f"--precision={case.precision}",
            f"--repeats={bench.pick(3 if case.model == 'base' else 10, 1)}",
        )
    )
    return Measured(
        f"{found['ms']:.0f} ms, {found['gflops']:.0f} GFLOP/s; "
        f"{found['own_shapes']:.0%} of the matrix rate at its own shapes, "
        f"{found['share']:.0%} of that of one large product",
        f"{case.share:.0%} at its own shapes",
        judged(found["own_shapes"] >= case.share),
        found,
    )


def _finetuning(name, length, bench):
    """An epoch against one padded to the maximum."""
    path, ratio = bench_inputs.training_records(name, bench.data, bench.folder)
    steps, padded = (60, 12) if name == "squad" else (0, 18)
    found = bench_lines.epochs(
        bench.run(
            "benchmarks/finetuning_epoch.py",
            f"--records={path}",
            f"--length={length}",
            f"--bert_config_file={bench.model_file()}",
            f"--steps={bench.pick(steps, 6)}",
            f"--padded_steps={bench.pick(padded, 6)}",
            *(["--squad"] if name == "squad" else []),
        )
    )
    way = min(set(found) - {"padded"}, key=found.get)
    gain, target = found["padded"] / found[way], _EPOCH_SHARE * ratio
    return Measured(
        f"{found[way]:.1f} s ({way}), padded {found['padded']:.1f} s: "
        f"{gain:.2f} times as fast = {gain / ratio:.0%} of {ratio:.2f} "
        "padded / real",
        f"{target:.2f} times = {_EPOCH_SHARE:.0%}",
        judged(gain >= target),
        {"seconds": found, "speed_up": gain, "padded_by_real": ratio},
    )


def _tokenizing(bench):
    """Both tokenizers by themselves."""
    found = bench_lines.tokenization(
        bench.run(
            "benchmarks/tokenization.py",
            f"--input_file={bench.text_file(bench.pick(0, 0.5))}",
            f"--vocab_file={bench.vocab}",
            f"--repeats={bench.pick(3, 1)}",
        )
    )
    python = CASES["tokenizing_python"].rate
    in_graph = CASES["tokenizing_in_graph"].rate
    return Measured(
        f"in the graph {found['in_graph']:.1f} MB/s, Python "
        f"{found['python']:.1f} MB/s",
        f"{in_graph} and {python} MB/s",
        judged(found["in_graph"] >= in_graph and found["python"] >= python),
        found,
    )


def _records(bench):
    """Making pretraining records, of texts of several sizes."""

    def make(size, lengths):
        text = bench.text_file(size)
        found = bench_lines.pretraining_data(
            bench.run(
                "benchmarks/pretraining_data.py",
                f"--input_file={text}",
                f"--vocab_file={bench.vocab}",
                "--dupe_factor=10",
                f"--lengths={lengths}",
                f"--repeats={bench.pick(2, 1)}",
            )
        )
        Path(text).unlink()
        return found

    sizes = bench.pick((5, 20, 40, 80), (1.5, 3, 6))
    points = [
        {
            "text_mb": size,
            "processes": processes,
            "seconds": size / row["text_mb_per_s"],
            "examples": row["examples_per_s"] * size / row["text_mb_per_s"],
            "peak_mb": row["peak_mb"],
        }
        for size in sizes
        for (processes, _), row in make(size, "128").items()
    ]
    at_512 = make(sizes[1], "512")[2, 512]["examples_per_s"]
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
        judged(
            found["rates"][1] >= target
            and gain >= _LEAST_OF_TWO_PROCESSES
            and found["cost"] <= _MOST_COST_GROWTH
            and found["memory"] <= _MOST_MEMORY_GROWTH
        ),
        {"points": points, "at_512": at_512, **found},
    )


def records_growth(points):
    """How the cost of making records grows with the text.

    Start-up, of the processes too, is in every point and in no difference of
    two of them.

    Args:
      points: of 1 and 2 processes with `text_mb`, which grows, `seconds`,
        `examples` and `peak_mb`.

    Returns:
      `rates`, examples/s of what the last text has more than the first, on 1
      and 2 processes; `cost`, of a MB between the last two texts by one
      before them; `memory`, peak of the last text by that of the one before,
      half as long; of the worse number of processes.
    """
    rates, costs, memory = [], [], []
    for processes in (1, 2):
        row = [point for point in points if point["processes"] == processes]

        def per(key, other, a, b, row=row):
            more = row[b][key] - row[a][key]
            return more / (row[b][other] - row[a][other])

        rates.append(per("examples", "seconds", 0, -1))
        costs.append(
            per("seconds", "text_mb", -2, -1) / per("seconds", "text_mb", 0, -2)
        )
        memory.append(row[-1]["peak_mb"] / row[-2]["peak_mb"])
    return {"rates": rates, "cost": max(costs), "memory": max(memory)}


def _reading(bench):
    """Batches of records, as training takes them."""
    rate = bench_lines.reading(
        bench.run(
            "benchmarks/input_pipeline.py",
            *bench.pick(
                ["--seconds=1", "--repeats=3"],
                ["--num_examples=16000", "--seconds=0.3", "--repeats=1"],
            ),
        )
    )
    return Measured(
        f"{rate:,.0f} examples/s",
        f"{_READING_EXAMPLES_PER_S:,} examples/s",
        judged(rate >= _READING_EXAMPLES_PER_S),
        {"examples_per_s": rate},
    )


def _help(bench):
    """Wall time of --help."""
    seconds = []
    for _ in range(bench.pick(5, 1)):
        began = time.perf_counter()
        told = subprocess.run(
            [sys.executable, "run_classifier.py", "--help"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        seconds.append(time.perf_counter() - began)
        # Its exit code is absl's, 1.
        if "--task_name" not in told.stdout:
            raise RuntimeError(f"--help printed no flags:\n{told.stderr}")
    return Measured(
        f"{min(seconds):.1f} s, at worst {max(seconds):.1f} s",
        f"{_HELP_S} s",
        judged(min(seconds) <= _HELP_S),
        {"seconds": seconds},
    )


def _first_step(bench):
    """From the launch of run_classifier.py to its first update."""
    data = bench_inputs.small_task(bench.data, bench.folder, 32)
    weights = f"--init_checkpoint={bench.minilm}/tf1/bert_model.ckpt"
    seconds = []
    for _ in range(bench.pick(2, 1)):
        with tempfile.TemporaryDirectory(dir=bench.folder) as output_dir:
            command = [
                *(sys.executable, "run_classifier.py"),
                *("--task_name=cola", "--do_train", "--train_batch_size=32"),
                *("--num_train_epochs=1", "--log_steps=1"),
                f"--data_dir={data}",
                f"--vocab_file={bench.vocab}",
                f"--bert_config_file={bench.model_file()}",
                f"--output_dir={output_dir}",
                *([weights] if bench.minilm else []),
            ]
            seconds.append(seconds_to(command, "training: 1/1 steps"))
    return Measured(
        f"{min(seconds):.1f} s, at worst {max(seconds):.1f} s",
        f"{_FIRST_STEP_S} s",
        judged(min(seconds) <= _FIRST_STEP_S),
        {"seconds": seconds},
    )


def _peers(name, case, bench):
    """A case of compare.py."""
    wanted = [f"{peer} {least:g}" for peer, least in case.targets.items()]
    wanted[0] = f"times as long as ours: {wanted[0]}"
    if case.share:
        wanted.append(f"{case.share:.0%} at its own shapes")
    if case.rate:
        wanted.append(f"{case.rate:g} {case.unit}")
    target = ", ".join(wanted)
    if not (Path(bench.environment) / "bin/python").exists():
        return Measured("not measured: make peers", target, NOT_MEASURED, {})
    results = bench.folder / f"{name}.jsonl"
    results.unlink(missing_ok=True)
    bench.run(
        "benchmarks/peers/compare.py",
        f"--only={name}",
        f"--data={bench.data}",
        f"--json={results}",
        f"--environment={bench.environment}",
        f"--model_garden_environment={bench.model_garden_environment}",
        *([f"--text={bench.text}"] if bench.text else []),
        *bench.pick([], ["--turns=1", "--sequences=32", "--megabytes=0.5"]),
    )
    found = json.loads(results.read_text())
    met = judged(found["met"])
    if found["not_measured"] and found["met"]:
        met = IN_PART
    return Measured(peers_text(found), target, met, found)


def peers_text(found):
    """A result of compare.py in few words.

    Args:
      found: the line of JSON.
    """
    parts = [
        "ours "
        + ", ".join(f"{key} {x:.4g}" for key, x in found["ours"].items())
        + f" {found['unit']}"
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
    return "; ".join(parts)


def _lengths(bench):
    """Throughput of a step against sequence length."""
    lengths = bench.pick("64,128,256,512", "64,256")
    rates = {
        precision: json.loads(
            bench.run(
                "benchmarks/bench_step.py",
                f"--lengths={lengths}",
                f"--precision={precision}",
                f"--repeats={bench.pick(8, 1)}",
            )
        )
        for precision in ("float32", "bfloat16")
    }
    text = "; ".join(
        f"{precision} "
        + ", ".join(f"{rate:,.0f} at {length}" for length, rate in row.items())
        for precision, row in rates.items()
    )
    return Measured(f"wordpieces/s: {text}", "", PICTURE, rates)


def _parts(bench):
    """Share of time per part of a step."""
    found = {}
    for model, layers, hidden in (("4 x 256", 4, 256), ("Base", 12, 768)):
        for precision in ("float32", "bfloat16"):
            found[f"{model}, {precision}"] = json.loads(
                bench.run(
                    "benchmarks/bench_step.py",
                    "--parts",
                    f"--layers={layers}",
                    f"--hidden={hidden}",
                    f"--precision={precision}",
                    f"--repeats={bench.pick(3, 1)}",
                )
            )
    text = ", ".join(
        f"{sum(x for part, x in row.items() if 'products' in part):.0%} {name}"
        for name, row in found.items()
    )
    return Measured(f"matrix products: {text}", "", PICTURE, found)


def _rows() -> dict[str, Callable[[Bench], Measured]]:
    """Name -> what measures it, in the order of the table."""
    rows = {
        name: functools.partial(_pretraining, case)
        for name, case in CASES.items()
        if case.kind == "pretraining"
    }
    for name, length in (("cola", 128), ("rte", 128), ("squad", 384)):
        rows[f"finetuning_{name}"] = functools.partial(
            _finetuning, name, length
        )
    rows |= {
        "tokenizing": _tokenizing,
        "records": _records,
        "reading": _reading,
        "startup_help": _help,
        "startup_first_step": _first_step,
    }
    for name, case in CASES.items():
        rows[f"peers_{name}"] = functools.partial(_peers, name, case)
    return rows | {"step_by_length": _lengths, "step_by_part": _parts}


ROWS = _rows()
