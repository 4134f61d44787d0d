"""Learning curves of runs side by side, from their TensorBoard events."""

import itertools
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from data.storage import files
from training.loop import events

Curve = Mapping[int, float]  # step -> value
# Name and folder ("" = training, such as "eval" = evaluation) -> tag -> the
# curves of runs that differ only in the seed.
Runs = Mapping[tuple[str, str], Mapping[str, Sequence[Curve]]]
_SEED = re.compile(r"-?seed\d+")
# How fast a run was, and not what it learned; and the eval_loss, which is the
# evaluation's loss but for the weights of its batches.
_LEFT_OUT = re.compile(r"/sec|learning_rate|global_step|^eval_loss$")
_COLUMNS = 3
_DPI = 110


def read(patterns: Sequence[str]) -> Runs:
    """Reads the events of runs, given by folders or globs of folders.

    Raises:
      FileNotFoundError: a pattern matches no folder with events.
    """
    found: dict[str, list] = {}
    for pattern in patterns:
        folders = [pattern] if files.exists(pattern) else files.find(pattern)
        folders = sorted({folder.rstrip("/") for folder in folders})
        curves = {folder: [*_events(folder)] for folder in folders}
        if not any(curves.values()):
            raise FileNotFoundError(
                f"--runs={pattern} has no TensorBoard events (files named "
                "events.out.tfevents*); give output_dirs, such as DIR/trial-*."
            )
        found |= curves
    runs: dict = {}
    for name, tag, curve in itertools.chain(*found.values()):
        runs.setdefault(name, {}).setdefault(tag, []).append(curve)
    return runs


def _events(folder: str) -> Iterator[tuple[tuple[str, str], str, Curve]]:
    """Yields the curves of a run's folder, and of its evaluations below it."""
    below = sorted(filter(files.is_folder, files.find_in(folder, "eval*")))
    for path in (folder, *below):
        part = os.path.basename(path) if path != folder else ""
        for tag, points in events.read_points(path).items():
            yield (_SEED.sub("", folder) or folder, part), tag, points


def draw(runs: Runs, path: str, tags: Sequence[str] | None = None) -> list[str]:
    """Draws a panel for each tag; None = all losses and scores.

    Returns:
      The tags.

    Raises:
      ValueError: no run has one of the tags.
    """
    import matplotlib.figure  # takes half a second

    there = {tag for curves in runs.values() for tag in curves}
    tags = list(tags or sorted(x for x in there if not _LEFT_OUT.search(x)))
    if unknown := [tag for tag in tags if tag not in there]:
        raise ValueError(
            f"--tags={','.join(unknown)}: the runs have no such curve, only "
            f"{', '.join(sorted(there))}."
        )
    if not tags:
        raise ValueError("--runs: there is no loss and no score to draw.")
    rows, columns = math.ceil(len(tags) / _COLUMNS), min(len(tags), _COLUMNS)
    size = 4.5 * columns, 3.2 * rows + 0.6
    figure = matplotlib.figure.Figure(figsize=size, layout="constrained")
    names = dict.fromkeys(name for name, _ in runs)
    palette = matplotlib.colormaps["tab10"]
    if len(names) > palette.N:
        palette = matplotlib.colormaps["turbo"].resampled(len(names))
    colors = {name: palette(i) for i, name in enumerate(names)}
    for place, tag in enumerate(tags, start=1):
        axis = figure.add_subplot(rows, columns, place)
        axis.set_title(tag, fontsize="medium")
        for (name, part), curves in runs.items():
            if tag in curves:
                _draw_curves(axis, curves[tag], name, part, colors[name])
        axis.set_xlabel("step")
        axis.grid(alpha=0.3)
    lines = {x.get_label(): x for axis in figure.axes for x in axis.get_lines()}
    figure.legend(lines.values(), lines, loc="outside lower center")
    save(figure, path)
    return tags


def save(figure: Any, path: str) -> None:
    """Writes a figure of matplotlib as PNG."""
    with files.open_whole(path) as file:
        figure.savefig(file, dpi=_DPI, format="png")


def _draw_curves(
    axis: Any, curves: Sequence[Curve], name: str, part: str, color: str
) -> None:
    """Draws the curve of one run, or the mean and band of its seeds."""
    label = f"{name}, {part}" if part else name
    # The steps that all seeds have.
    steps = sorted(set.intersection(*map(set, curves)))
    most = max(map(len, curves))
    if len(steps) < most:
        logging.warning(
            "%s, %s: %d of %d steps are drawn, which all %d seeds have.",
            *(label, axis.get_title(), len(steps), most, len(curves)),
        )
    values = np.array([[curve[step] for step in steps] for curve in curves])
    style = "o--" if part else ".-"  # a run may have a point alone
    axis.plot(steps, values.mean(axis=0), style, color=color, label=label, ms=4)
    if len(curves) > 1:
        low, high = values.min(axis=0), values.max(axis=0)
        axis.fill_between(steps, low, high, color=color, alpha=0.2, lw=0)
