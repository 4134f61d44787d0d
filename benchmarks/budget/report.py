"""ladder.md and ladder.png."""

from collections.abc import Iterator
from pathlib import Path

import matplotlib.figure

from benchmarks import tables
from benchmarks.budget.rungs import (
    BASELINE,
    BESIDE,
    LADDER,
    LAST,
    QUARTER,
    RATES,
    RUNGS,
)
from benchmarks.budget.runs import SEED, Runs
from benchmarks.programs import processor
from data.storage import files
from training import curves
from training.devices import strategy
from training.loop import events

LOSS = "masked_lm_loss"
_SHOWN = (*LADDER, QUARTER)
_COLUMNS = {  # title -> records, name of the number, factor
    "loss": ("pairs", LOSS, 1.0),
    "% right": ("pairs", "masked_lm_accuracy", 100.0),
    "next sentence, % right": ("pairs", "next_sentence_accuracy", 100.0),
    "loss on rows": ("rows", LOSS, 1.0),
}


def write(folder: Path, runs: Runs) -> None:
    """Writes both files, of all that is done."""
    results = {r.name: found for r in RUNGS if (found := runs.found(r))}
    parts = {
        "The original's recipe": (BASELINE, *RATES),
        "The ladder: each rung adds one change": _SHOWN,
        f"Beside it: `{LAST.name}` with one change more": BESIDE,
    }
    lines = [f"{processor()}; {strategy.local_bfloat16().found}.\n"]
    names = ("rung", "minutes", "updates", *_COLUMNS)
    for title, rungs in parts.items():
        if rows := [r for r in rungs if r.name in results]:
            text = tables.table(names, _rows(rows, results))
            lines += [f"## {title}\n", text, ""]
    files.write_text(str(folder / "ladder.md"), "\n".join([*lines, ""]))
    _draw(folder, runs)


def _rows(rungs, results) -> Iterator[list]:
    """The rows of a table of rungs."""
    for rung in rungs:
        found = list(results[rung.name].values())
        cells = [rung.title, f"{found[0]['minutes']:.1f}", found[0]["updates"]]
        for kind, metric, factor in _COLUMNS.values():
            values = [x[kind][metric] for x in found if metric in x[kind]]
            cells.append(tables.spread([factor * value for value in values]))
        yield cells


def _draw(folder: Path, runs: Runs) -> None:
    """Draws loss against minutes; nothing before there are curves."""
    figure = matplotlib.figure.Figure(figsize=(9, 5), layout="constrained")
    axis = figure.subplots()
    for rung in (BASELINE, *_SHOWN):
        place = runs.place(rung, SEED) / "phase_1" / "eval"
        if points := events.read_points(str(place)).get(LOSS):
            steps, losses = zip(*sorted(points.items()), strict=True)
            (phase,) = runs.phases(rung)
            minutes = [step * phase.seconds / 60 for step in steps]
            style = "--" if rung is BASELINE else "-"
            axis.plot(minutes, losses, style, label=rung.title)
    if not axis.lines:
        return
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("minutes of training on this machine")
    axis.set_ylabel("masked-LM loss on held-out text")
    axis.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    curves.save(figure, str(folder / "ladder.png"))
