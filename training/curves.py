"""Learning curves of runs side by side, from their TensorBoard events."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from data.storage import files
from training.loop import events

# A run's events by folder: "" = training, such as "eval" = evaluation.
Runs = Mapping[str, Sequence[Mapping[str, events.Points]]]
_SEED = re.compile(r"-?seed\d+")
# How fast a run was, and not what it learned; and the eval_loss, which is the
# evaluation's loss but for the weights of its batches.
_LEFT_OUT = re.compile(r"/sec|learning_rate|global_step|^eval_loss$")
_COLUMNS = 3
_DPI = 110


def read(patterns: Sequence[str]) -> Runs:
    """Reads the events of runs, given by folders or globs of folders.

    Returns:
      Name -> the runs whose folders differ only in the seed.

    Raises:
      FileNotFoundError: a pattern matches no folder with events.
    """
    found: dict[str, list] = {}
    for pattern in patterns:
        folders = [pattern] if files.exists(pattern) else files.find(pattern)
        curves = {folder: _events(folder) for folder in folders}
        curves = {folder: x for folder, x in curves.items() if x}
        if not curves:
            raise FileNotFoundError(
                f"--runs={pattern} has no TensorBoard events (files named "
                "events.out.tfevents*); give the output_dir of a run that has "
                "trained or evaluated."
            )
        for folder, points in curves.items():
            name = _SEED.sub("", folder.rstrip("/")) or folder
            found.setdefault(name, []).append(points)
    return found


def _events(folder: str) -> dict[str, events.Points]:
    """Returns the points of a folder and of those directly below it."""
    points = {"": events.read_points(folder)}
    for path in filter(files.is_folder, files.find_in(folder, "*")):
        points[os.path.basename(path)] = events.read_points(path)
    return {name: found for name, found in points.items() if found}


def draw(runs: Runs, path: str, tags: Sequence[str] | None = None) -> list[str]:
    """Draws a panel for each tag; None = all losses and scores.

    Returns:
      The tags.

    Raises:
      ValueError: no run has one of the tags.
    """
    import matplotlib.figure  # takes half a second

    there = {
        tag
        for same in runs.values()
        for run in same
        for points in run.values()
        for tag in points
    }
    tags = list(tags or sorted(x for x in there if not _LEFT_OUT.search(x)))
    if unknown := [tag for tag in tags if tag not in there]:
        raise ValueError(
            f"--tags={','.join(unknown)}: the runs have no such curve, only "
            f"{', '.join(sorted(there))}."
        )
    num_rows = math.ceil(len(tags) / _COLUMNS)
    figure = matplotlib.figure.Figure(
        figsize=(4.5 * min(len(tags), _COLUMNS), 3.2 * num_rows + 0.6),
        layout="constrained",
    )
    panels = figure.subplots(num_rows, min(len(tags), _COLUMNS), squeeze=False)
    for axis, tag in zip(panels.flat, tags, strict=False):
        for number, (name, same) in enumerate(runs.items()):
            _draw_run(axis, tag, same, name, f"C{number}")
        axis.set_title(tag, fontsize="medium")
        axis.set_xlabel("step")
        axis.grid(alpha=0.3)
    for axis in panels.flat[len(tags) :]:
        axis.set_visible(False)
    lines = dict(
        (label, line)
        for axis in panels.flat
        for line, label in zip(*axis.get_legend_handles_labels(), strict=True)
    )
    figure.legend(lines.values(), lines, loc="outside lower center")
    with files.whole_files([path]) as (place,), files.open_write(place) as file:
        figure.savefig(file, dpi=_DPI, format="png")
    return tags


def _draw_run(
    axis: Any, tag: str, same: Sequence[Mapping], name: str, color: str
) -> None:
    """Draws a tag of one run, or the mean and band of its seeds."""
    for folder in dict.fromkeys(folder for run in same for folder in run):
        curves = [
            run[folder][tag] for run in same if tag in run.get(folder, {})
        ]
        if not curves:
            continue
        # The steps that all seeds have.
        steps = sorted(set.intersection(*map(set, curves)))
        values = np.array([[curve[step] for step in steps] for curve in curves])
        label = f"{name}, {folder}" if folder else name
        style = "o--" if folder else ".-"  # a run may have a point alone
        axis.plot(
            steps, values.mean(axis=0), style, color=color, label=label, ms=4
        )
        if len(curves) > 1:
            low, high = values.min(axis=0), values.max(axis=0)
            axis.fill_between(steps, low, high, color=color, alpha=0.2, lw=0)
