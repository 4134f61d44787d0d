"""hour.md, hour.tsv and hour.png."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.figure

from benchmarks import tables
from benchmarks.programs import result_in
from studies.engine.report import Values
from training import curves
from training.loop.events import read_eval_results

_CORES = 2
_COLUMNS = 3  # of the picture


def write(folder: Path, models: Sequence[str], tasks: Sequence[str]) -> None:
    """Writes the three files, of all that is done: `models` first."""
    done = sorted(path.parts[-3] for path in folder.glob("*/*/result.json"))
    models = [*dict.fromkeys((*models, *done))]
    found = {
        (model, task): result["values"]
        for model in models
        for task in tasks
        if (result := result_in(folder / model / task / "result.json"))
    }
    rows = [[m, t, v] for (m, t), values in found.items() for v in values]
    shown_tasks = [t for t in tasks if any(task == t for _, task in found)]
    columns = ["model", "masked-LM loss", *shown_tasks]
    scored = []
    for model in models:
        if any(name == model for name, _ in found):
            cells = [tables.spread(found.get((model, t))) for t in shown_tasks]
            scored.append([model, _loss(folder / model), *cells])
    rows.insert(0, ["model", "task", "value"])
    tables.write(folder, "hour", rows, tables.table(columns, scored))
    if found:
        _draw(folder, models, shown_tasks, found)


def _loss(folder: Path) -> str:
    """The loss on the held-out text of the model's own text."""
    path = folder / "model/eval_results.txt"
    if not path.exists():
        return ""
    return f"{read_eval_results(str(path))['masked_lm_loss']:.2f}"


def _draw(folder, models, tasks, found) -> None:
    """Draws scores against core-minutes, a panel for each task."""
    height = -(-len(tasks) // _COLUMNS)
    size = (11, 3.5 * height)
    figure = matplotlib.figure.Figure(size, layout="constrained")
    axes = figure.subplots(height, _COLUMNS, squeeze=False).flat
    names = dict.fromkeys(_text_and_minutes(model)[0] for model in models)
    colors = {name: f"C{number}" for number, name in enumerate(names)}
    handles = {}
    for task, axis in zip(tasks, axes, strict=False):
        done = [model for model in models if (model, task) in found]
        values = {model: Values.of(found[model, task]) for model in done}
        _panel(axis, task, values, colors)
        drawn, labels = axis.get_legend_handles_labels()
        handles |= dict(zip(labels, drawn, strict=True))
    for axis in axes:
        axis.remove()
    place = {"loc": "outside lower center", "ncols": 6}
    figure.legend(handles.values(), handles, **place)
    curves.save(figure, str(folder / "hour.png"))


def _text_and_minutes(model: str) -> tuple[str, int]:
    """Divides a name such as novels_15; 0 = the model has no minutes."""
    text, _, minutes = model.rpartition("_")
    return (text, int(minutes)) if minutes.isdigit() else (model, 0)


def _panel(axis, task, values, colors) -> None:
    """Draws a task: a line for each text, a level for each other model."""
    lines = {}  # text -> core-minutes -> values
    for model, found in values.items():
        name, minutes = _text_and_minutes(model)
        if minutes:
            lines.setdefault(name, {})[_CORES * minutes] = found
        else:
            color = colors[name]
            axis.axhline(found.mean, ls="--", color=color, label=name)
    for text, line in lines.items():
        means = [found.mean for found in line.values()]
        spreads = [found.spread or 0 for found in line.values()]
        style = {"marker": "o", "capsize": 3, "color": colors[text]}
        axis.errorbar([*line], means, spreads, label=text, **style)
    axis.set_xscale("log")
    ticks = sorted({minutes for line in lines.values() for minutes in line})
    axis.set_xticks(ticks, map(str, ticks))
    axis.minorticks_off()
    axis.set_xlabel("core-minutes of pretraining")
    axis.set_title(task)
    axis.grid(alpha=0.3)
