"""Runs what is not done yet of a study, and remembers it."""

import gc
import math
import os
from collections.abc import Callable
from typing import Any

from absl import logging

from data.progress import Progress
from data.storage import files
from data.storage.json_files import read_json
from studies.engine import picture, plan, report
from studies.engine.declaring import Study
from studies.engine.measures import MEASURES, applies
from studies.engine.options import (
    NO_CASING,
    StudyData,
    StudyOptions,
    check_rows,
)
from studies.engine.plan import Job
from studies.engine.scales import SCALES
from training.many_runs.recorded_run import RecordedRun

_STUDY, _RUN = "study.json", "run.json"
# See `programs.Programs.__call__`.
Prepare = Callable[[Job], tuple[dict[str, Any], Callable[[], dict[str, Any]]]]


def run(
    study: Study, options: StudyOptions, data: StudyData, prepare: Prepare
) -> None:
    """Makes or continues a study; `prepare` prepares a run.

    Raises ValueError or OSError before anything runs if data are missing or the
    folder belongs to another study, and FloatingPointError if a pretraining
    diverged.
    """
    check_rows(study, options)
    data.check(study)
    if "TF_CONFIG" in os.environ:
        raise ValueError(
            "TF_CONFIG is set: a study runs on one machine; unset it."
        )
    facts = {
        "study": options.study,
        "scale": options.scale,
        "seed": options.seed,
        "precision": options.precision,
        "text": files.sha256(data.text) if data.text else "of the demo",
        "init_checkpoint": data.init_checkpoint,
    }
    recorded = RecordedRun(options.output_dir, _STUDY, facts)
    recorded.run(_Runs(study, options, data, prepare).run)


class _Runs:
    """The runs of a study, and what they have found; see `run`."""

    def __init__(
        self,
        study: Study,
        options: StudyOptions,
        data: StudyData,
        prepare: Prepare,
    ):
        self._study = study
        self._options = options
        self._data = data
        self._scale = SCALES[options.scale]
        self._prepare = prepare
        self._measures = data.measures_of(study)
        self._left_out = data.left_out(study)
        self._values: dict[tuple[str, str], dict[int, float]] = {}
        self._seconds: dict[str, float] = {}

    def run(self) -> dict[str, Any]:
        """Runs what is missing, in order; reports after each run."""
        data = self._study, self._options, self._data
        jobs = list(plan.jobs_of(*data, self._scale))
        jobs = [job for job in jobs if job.is_asked or _is_done(job)]
        for name in self._left_out:
            logging.warning(
                "--text=%s: %s, so %s is left out.",
                self._data.text,
                NO_CASING,
                name,
            )
        total = sum(round(job.seconds) for job in jobs)
        before = sum(round(job.seconds) for job in jobs if _is_done(job))
        logging.info(
            "%s: %d runs, about %d minutes on 2 cores; %d %% done before.",
            self._options.study,
            len(jobs),
            math.ceil(total / 60),
            100 * before // max(1, total),
        )
        names = {"total": total, "initial": before, "unit": "expected seconds"}
        with Progress(f"study {self._options.study}", **names) as progress:
            for number, job in enumerate(jobs, start=1):
                was_done = _is_done(job)
                self._remember(job, self._result(job))
                is_last = number == len(jobs)
                if not was_done or is_last:
                    self._report(len(jobs) - number)
                if is_last or jobs[number].row is not job.row:
                    self._draw()
                if not was_done:
                    figures = f"run {number} of {len(jobs)}: {job.folder}"
                    progress.advance(round(job.seconds), figures)
                gc.collect()  # graphs of finished models
        return {}

    def _result(self, job: Job) -> dict[str, Any]:
        """Returns the result of a run; runs it unless it is done."""
        if not job.is_asked:
            return read_json(os.path.join(job.folder, _RUN))
        facts, function = self._prepare(job)
        recorded = RecordedRun(job.folder, _RUN, facts)
        return recorded.result or recorded.run(function)

    def _remember(self, job: Job, result: dict[str, Any]) -> None:
        """Adds the result of a run to the values of its measures."""
        seconds = self._seconds.get(job.row.name, 0.0) + result["seconds"]
        self._seconds[job.row.name] = seconds
        for name in self._measures:
            measure = MEASURES[name]
            if measure.run == job.run and applies(measure, job.row):
                value = measure.factor * result["values"][measure.metric]
                values = self._values.setdefault((job.row.name, name), {})
                values[job.seed] = value

    def _report(self, missing: int) -> None:
        """Writes the files of the study, once there is something to show."""
        if not self._values:
            return
        found = self._found(missing)
        steps, sizes = self._scale.steps_of(self._study), self._study.sizes
        minutes = self._scale.minutes_of(self._study)
        model = {**self._scale.sizes, **sizes}
        facts = {
            "scale": self._options.scale,
            "text": os.path.basename(self._data.text or "that of `make demo`"),
            "model": os.path.basename(
                (self._data.init_checkpoint or "").rstrip("/")
            )
            or f"{model['num_hidden_layers']} layers x {model['hidden_size']} "
            "where a row does not say otherwise",
            "pretraining": "none"
            if self._data.init_checkpoint
            else (f"{minutes:g} minutes" if minutes else f"{steps} steps")
            + f" of {self._scale.batch_size} x {plan.LENGTH} wordpieces, from "
            "--first_weights=neighbors",
        }
        if self._left_out:
            names = ", ".join(self._left_out)
            facts["left out"] = f"{names}: of the text {NO_CASING}"
        place = self._options.output_dir
        names = self._measures
        report.write(self._study, found, place, measures=names, facts=facts)

    def _found(self, missing: int) -> report.Found:
        return report.Found(self._values, self._seconds, missing)

    def _draw(self) -> None:
        """Draws the picture; takes a second."""
        place = self._options.output_dir
        found = self._found(0)
        steps = self._scale.steps_of(self._study)
        picture.draw(self._study, found, place, self._measures, steps)


def _is_done(job: Job) -> bool:
    """Whether a run has recorded a result."""
    path = os.path.join(job.folder, _RUN)
    return files.exists(path) and "seconds" in read_json(path)
