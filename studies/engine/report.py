"""study.tsv, study.md and study.png: ours beside the paper's."""

import collections
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from data.storage import files
from data.tables import tsv
from studies.engine.declaring import Row, Study
from studies.engine.measures import MEASURES
from studies.engine.plan import Job
from training import curves


class Values(NamedTuple):
    """A measure's values in a row, one for each seed: mean, spread, count.

    `spread` is the standard deviation; None = there is one value only.
    """

    mean: float
    spread: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Values":
        """Returns mean and spread of one value or more."""
        spread = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), spread, len(values))


class Found:
    """What has been measured so far; `missing` runs are not done yet.

    `values` are row, measure -> seed -> value in the report's unit; `seconds`
    are row -> seconds of its runs, pretraining included.
    """

    def __init__(self, study: Study):
        self.study = study
        self.values = collections.defaultdict(dict)
        self.seconds = collections.defaultdict(float)
        self.missing = 0

    def add(self, job: Job, result: Mapping[str, Any]) -> None:
        """Adds the `seconds` and the measures among the `values` of a run."""
        self.seconds[job.row.name] += result["seconds"]
        for name in self.study.measures:
            measure = MEASURES[name]
            if measure.run == job.run and measure.applies(job.row):
                value = measure.factor * result["values"][measure.metric]
                self.values[job.row.name, name][job.seed] = value

    @property
    def measured(self) -> list[str]:
        """The measures that have a value."""
        names = {name for _, name in self.values}
        return [name for name in self.study.measures if name in names]

    def of(self, row: Row, measure: str) -> Values | None:
        """Returns mean and spread of a row's measure; None = not measured."""
        values = self.values.get((row.name, measure))
        return Values.of(list(values.values())) if values else None


def write(found: Found, output_dir: str, facts: Mapping[str, str]) -> None:
    """Writes study.tsv and study.md, once something has been measured.

    `facts` are settings, for the end of the report.
    """
    if not found.values:
        return
    rows = [["row", "measure", "seed", "value"]]
    for (row, measure), values in found.values.items():
        rows += [[row, measure, seed, v] for seed, v in values.items()]
    files.write_text(os.path.join(output_dir, "study.tsv"), tsv(rows))
    text = "\n".join(_lines(found, facts)) + "\n"
    files.write_text(os.path.join(output_dir, "study.md"), text)


def _lines(found: Found, facts: Mapping[str, str]) -> Iterator[str]:
    """The lines of study.md."""
    study = found.study
    yield f"# {study.title}\n\n{study.source}. {study.question}\n"
    if found.missing:
        yield f"{found.missing} runs are not done yet.\n"
    for measure in found.measured:
        yield from _measure(found, measure)
    yield from _paper(study)
    yield "## Settings\n"
    yield from (f"- {note}" for note in study.notes)
    yield (
        "- Each row is pretrained once. Mean and spread (standard deviation) "
        "are over the seeds of its fine-tunings."
    )
    yield from (f"- {name}: {value}" for name, value in facts.items())
    yield "\n| row | minutes |\n| --- | --- |"
    for row in study.rows:
        if row.name in found.seconds:
            yield f"| {row.title} | {found.seconds[row.name] / 60:.1f} |"


def _measure(found: Found, measure: str) -> Iterator[str]:
    """The table of a measure: ours | the paper's | does the sign agree."""
    study, column = found.study, found.study.nearest.get(measure)
    better = "less" if MEASURES[measure].less_is_better else "more"
    yield f"## {MEASURES[measure].title} ({better} is better)\n"
    names = ["row", "ours", "difference"]
    if column:
        names += [f"paper: {column}", "difference", "same sign"]
    yield f"| {' | '.join(names)} |\n|{' --- |' * len(names)}"
    base = found.of(study.base, measure)
    for row in study.rows:
        if ours := found.of(row, measure):
            cells = _cells(study, row, ours, base, column)
            yield f"| {' | '.join([row.title, *cells])} |"
    yield ""


def _cells(
    study: Study, row: Row, ours: Values, base: Values | None, column: str
) -> list[str]:
    cells = [shown(ours), "", "", "", ""]
    compared = base is not None and row is not study.base
    if compared:
        cells[1] = f"{ours.mean - base.mean:+.2f}"
    if column and row.paper:
        place = study.columns.index(column)
        theirs = row.paper[place] - study.base.paper[place]
        cells[2] = f"{row.paper[place]:g}"
        if row is not study.base:
            cells[3] = f"{theirs:+.2f}"
        if compared:
            cells[4] = _sign_agrees(ours, base, theirs)
    return cells if column else cells[:2]


def _sign_agrees(ours: Values, base: Values, theirs: float) -> str:
    """Says whether our difference to the base has the sign of the paper's.

    Returns `yes` or `no`, with `within the spread` if our difference is at most
    two standard errors, or `one run` if there is no error to compare it with;
    `-` if the paper's difference is 0.
    """
    difference = ours.mean - base.mean
    if not theirs:
        return "-"
    agrees = "yes" if difference * theirs > 0 else "no"
    if ours.spread is None or base.spread is None:
        return f"{agrees}, one run"
    # Of each mean.
    errors = (x.spread / math.sqrt(x.count) for x in (ours, base))
    if abs(difference) <= 2 * math.hypot(*errors):
        return f"{agrees}, within the spread"
    return agrees


def shown(values: Values) -> str:
    """Returns mean, spread and number of values as text."""
    if values.spread is None:
        return f"{values.mean:.2f}"
    return f"{values.mean:.2f} ± {values.spread:.2f} ({values.count})"


def _paper(study: Study) -> Iterator[str]:
    if not any(row.paper for row in study.rows):
        return
    columns = study.columns
    yield f"## {study.source}\n"
    yield f"| row | {' | '.join(columns)} |\n|{' --- |' * (1 + len(columns))}"
    for row in study.rows:
        if row.paper:
            cells = (f"{number:g}" for number in row.paper)
            yield f"| {row.title} | {' | '.join(cells)} |"
    yield ""


def draw(found: Found, output_dir: str, num_steps: int) -> None:
    """Draws means and spreads, once something has been measured.

    `num_steps` is the number of pretraining steps.
    """
    study, measures = found.study, found.measured
    if not measures:
        return
    import matplotlib.figure  # takes half a second

    size = (4.5 * len(measures) + 1.5, 1.6 + 0.3 * len(study.rows))
    figure = matplotlib.figure.Figure(size, layout="constrained")
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
            axis.errorbar(values.mean, number, xerr=values.spread, fmt="o")
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
