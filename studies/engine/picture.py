"""study.png: a panel for each measure."""

import os
from typing import Any

from studies.engine.measures import MEASURES
from studies.engine.report import Found
from training import curves


def draw(found: Found, output_dir: str, num_steps: int) -> None:
    """Draws means and spreads, once something has been measured.

    `num_steps` is the number of pretraining steps.
    """
    study, measures = found.study, found.measured
    if not measures:
        return
    import matplotlib.figure  # takes half a second

    height = 1.6 + 0.3 * len(study.rows)
    figure = matplotlib.figure.Figure(
        figsize=(4.5 * len(measures) + 1.5, height), layout="constrained"
    )
    axes = figure.subplots(1, len(measures), squeeze=False)[0]
    for axis, measure in zip(axes, measures, strict=True):
        if any(row.line for row in study.rows):
            _curves(axis, found, measure, num_steps)
        else:
            _bars(axis, found, measure)
        axis.set_title(MEASURES[measure].title, fontsize="small")
        axis.grid(alpha=0.3)
    figure.suptitle(study.title)
    lines = axes[0].get_legend_handles_labels()
    if any(lines):
        figure.legend(*lines, loc="outside lower center", ncols=len(lines[0]))
    curves.save(figure, os.path.join(output_dir, "study.png"))


def _bars(axis: Any, found: Found, measure: str) -> None:
    """A point with its spread for each row, and a line at the base."""
    rows = found.study.rows_at("small")
    for number, row in enumerate(rows):
        if values := found.of(row, measure):
            axis.errorbar(
                values.mean, number, xerr=values.spread, fmt="o", capsize=3
            )
            if row is found.study.base:
                axis.axvline(values.mean, color="black", alpha=0.3)
    axis.set_yticks(range(len(rows)), [row.title for row in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.tick_params(labelleft=axis.get_subplotspec().is_first_col())


def _curves(axis: Any, found: Found, measure: str, num_steps: int) -> None:
    """A curve over the steps for each line of rows."""
    rows = found.study.rows
    for line in dict.fromkeys(row.line for row in rows):
        points = sorted(
            (row.share * num_steps, *values[:2])
            for row in rows
            if row.line == line and (values := found.of(row, measure))
        )
        if points:
            steps, means, spreads = zip(*points, strict=True)
            spreads = [spread or 0.0 for spread in spreads]
            axis.errorbar(steps, means, spreads, fmt="o-", label=line)
    axis.set_xlabel("steps of pretraining")
