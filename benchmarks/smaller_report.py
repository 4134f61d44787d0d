"""smaller.md and smaller.png."""

import functools
import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib.figure
import matplotlib.lines
import matplotlib.ticker

from benchmarks import tables
from benchmarks.programs import result_in
from benchmarks.smaller import (
    COSTS_FILE,
    MODELS,
    RESULT,
    SIZES,
    TASKS,
    TEACHER,
)
from data.storage import files
from data.storage.json_files import find_json
from studies.engine.report import Values, shown
from training import curves

# Of scores and megabytes -> title.
_FORMS = {"float32": "float32", "bfloat16": "bfloat16", "int8": "8 bits"}
_TIMED = {  # form of a model that is timed -> title
    "float32": "float32",
    "bfloat16": "bfloat16",
    "float": "LiteRT, float32",
    "int8": "LiteRT, 8 bits",
}
_TEXTS = ("short", "long")
_STYLES = {
    name: {"marker": marker, "color": f"C{number}"}
    for number, (name, marker) in enumerate(zip(MODELS, "osDPv<>", strict=True))
}
_FILLS = {"float32": "full", "bfloat16": "left", "int8": "none"}


class Results:
    """All that is done in a folder.

    `runs` are task, model -> seed -> the result of its run. `costs` are the
    content of costs.json; {} = not measured.
    """

    def __init__(self, folder: Path):
        self.runs: dict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
        for task, name in itertools.product(TASKS, MODELS):
            paths = (folder / task).glob(f"seed-*/{name}/{RESULT}")
            for path in sorted(paths):
                if found := result_in(path):
                    seed = int(path.parts[-3].removeprefix("seed-"))
                    self.runs[task, name][seed] = found
        self.costs = find_json(str(folder / COSTS_FILE))

    def models_of(self, task: str) -> list[str]:
        """Returns the models of a task that are done."""
        return [name for name in MODELS if (task, name) in self.runs]

    def scores(self, task: str, name: str, form: str) -> Values | None:
        """Returns mean and spread of a model's scores; None = no score."""
        runs = self.runs.get((task, name), {}).values()
        found = [x["scores"][form] for x in runs if form in x["scores"]]
        return Values.of(found) if found else None

    def shares(self, task: str, name: str, form: str) -> Values | None:
        """Returns the scores as percent of the teacher's mean in float32."""
        found = self.scores(task, name, form)
        teacher = self.scores(task, TEACHER, "float32")
        if not (found and teacher and teacher.mean):
            return None
        factor = 100 / teacher.mean
        spread = found.spread and factor * found.spread
        return Values(factor * found.mean, spread, found.count)

    def megabytes(self, task: str, name: str, form: str) -> float | None:
        """Returns the size of the first run's file."""
        return next(iter(self.runs[task, name].values()))["megabytes"].get(form)

    def milliseconds(self, name: str, form: str, kind: str) -> float | None:
        """Returns the median time of an answer; None = not measured."""
        for timed, forms in self.costs.get("milliseconds", {}).items():
            if MODELS[timed].size == MODELS[name].size:
                return forms.get(form, {}).get(kind)
        return None


def write(folder: Path) -> None:
    """Writes both files, of all that is done."""
    found = Results(folder)
    if not found.runs:
        return
    lines = [found.costs.get("processor", "") + "\n"]
    for task, its in TASKS.items():
        if names := found.models_of(task):
            lines += [f"## {its.title}\n", _scores(found, task, names), ""]
    if found.costs:
        lines += [_times(found), ""]
    files.write_text(str(folder / "smaller.md"), "\n".join([*lines, ""]))
    _draw(found, folder)


def _scores(found, task, names) -> str:
    """The table of a task's scores and sizes."""
    columns = ["model", "float32", "% of the teacher's", "bfloat16", "8 bits"]
    columns += ["MB", "MB, 8 bits"]
    rows = []
    for name in names:
        first, *others = (found.scores(task, name, x) for x in _FORMS)
        share = found.shares(task, name, "float32")
        sizes = [found.megabytes(task, name, x) for x in ("float32", "int8")]
        cells = [MODELS[name].title, shown(first)]
        cells.append(f"{share.mean:.1f}" if share else "")
        cells += [shown(x) if x else "" for x in others]
        cells += [f"{x:.1f}" if x else "" for x in sizes]
        rows.append(cells)
    return tables.table(columns, rows)


def _times(found) -> str:
    """The table of milliseconds, of a short and a long text."""
    rows = []
    for name in SIZES:
        cells = [MODELS[name].title]
        for form in _TIMED:
            times = (found.milliseconds(name, form, x) for x in _TEXTS)
            cells.append(" / ".join(f"{x:.2f}" for x in times if x))
        rows.append(cells)
    return tables.table(["ms of a short / a long text", *_TIMED.values()], rows)


def _draw(found: Results, folder: Path) -> None:
    """Draws each task's quality against milliseconds, and megabytes."""

    def milliseconds(_task, name, form):
        return found.milliseconds(name, form, "long")

    costs = {"time of a long text (ms)": milliseconds} if found.costs else {}
    costs["size of the weights (MB)"] = found.megabytes
    tasks = [task for task in TASKS if (task, TEACHER) in found.runs]
    size = (1 + 3 * len(tasks), 1 + 3 * len(costs))
    figure = matplotlib.figure.Figure(size, layout="constrained")
    share = {"sharex": "row", "sharey": "col", "squeeze": False}
    axes = figure.subplots(len(costs), len(tasks), **share)
    for row, (label, cost) in zip(axes, costs.items(), strict=True):
        row[0].set_ylabel("score (% of the teacher's mean)")
        for axis, task in zip(row, tasks, strict=True):
            _points(axis, found, task, cost)
            axis.set(xlabel=label, xscale="log")
            locator = matplotlib.ticker.LogLocator(subs=(1, 2, 3, 5))
            axis.xaxis.set_major_locator(locator)
            axis.xaxis.set_major_formatter("{x:g}")
            axis.xaxis.set_minor_formatter("")
            axis.grid(alpha=0.3)
    for axis, task in zip(axes[0], tasks, strict=True):
        axis.set_title(TASKS[task].title, fontsize="medium")
    place = {"loc": "outside lower center", "ncols": 1 + len(tasks)}
    figure.legend(handles=_legend(), fontsize="small", **place)
    curves.save(figure, str(folder / "smaller.png"))


def _points(axis, found, task, cost):
    """Draws the models of a task, each with its spread."""
    for name in found.models_of(task):
        for form, fill in _FILLS.items():
            share = found.shares(task, name, form)
            place = cost(task, name, form)
            if share and place:
                style = _STYLES[name] | {"fillstyle": fill, "capsize": 2}
                axis.errorbar(place, share.mean, share.spread, **style)


def _legend():
    """Colours and markers are models, fillings are arithmetic."""
    line = functools.partial(matplotlib.lines.Line2D, [], [], linestyle="none")
    models = [
        line(label=MODELS[name].title, **style)
        for name, style in _STYLES.items()
    ]
    return models + [
        line(marker="o", color="black", fillstyle=fill, label=_FORMS[form])
        for form, fill in _FILLS.items()
    ]
