"""Runs what is not done yet of a study, and remembers it."""

import gc
import math
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from absl import logging

from data.progress import Progress
from data.storage import files, manifests
from data.storage.json_files import find_json, read_json
from data.text import vocabulary
from modeling.checkpoints import model_folder
from studies.engine import report
from studies.engine.plan import Job, Plan
from studies.engine.scales import LENGTH, SIZES
from studies.engine.study_options import NO_CASING, StudyData
from training.many_runs.recorded_run import RecordedRun

_STUDY, _RUN = "study.json", "run.json"
_FILE = re.compile(r"\.\w+_sha256$")  # names of `StudyData.checksums`
# See `programs.Programs.__call__`.
Prepare = Callable[[Job], tuple[dict[str, Any], Callable[[], dict[str, Any]]]]


def run(plan: Plan, prepare: Prepare) -> None:
    """Makes or continues a study; `prepare` prepares a run.

    Raises ValueError before anything runs if the folder belongs to another
    study, and FloatingPointError if a pretraining diverged.
    """
    if "TF_CONFIG" in os.environ:
        raise ValueError("TF_CONFIG is set: a study has one machine; unset it.")
    options, data = plan.options, plan.options.data
    names = ("study", "scale", "seed", "precision")
    facts = {name: getattr(options, name) for name in names}
    facts["text"] = files.sha256(data.text) if data.text else "of the demo"
    if path := data.init_checkpoint:
        facts["init_checkpoint_sha256"] = model_folder.weights_sha256(path)
        vocab = vocabulary.load_vocab(model_folder.find(path).vocab_file)
        facts["vocab_sha256"] = vocabulary.sha256(vocab)
    recorded = RecordedRun(options.output_dir, _STUDY, facts)
    recorded.run(lambda: _make(plan, prepare))


def _make(plan: Plan, prepare: Prepare) -> dict[str, Any]:
    """Runs what is missing, in order; reports after each run."""
    options, data = plan.options, plan.options.data
    jobs = [job for job in plan.jobs() if job.is_asked or _is_done(job)]
    _require_same_data(jobs, data)
    for name in data.left_out(plan.study):
        logging.warning(
            "--text=%s: %s, so %s is left out.", data.text, NO_CASING, name
        )
    total = sum(round(job.seconds) for job in jobs)
    before = sum(round(job.seconds) for job in jobs if _is_done(job))
    minutes, percent = math.ceil(total / 60), 100 * before // max(1, total)
    logging.info(
        "%s: %d runs, about %d minutes on 2 cores; %d %% done before.",
        *(options.study, len(jobs), minutes, percent),
    )
    names = {"total": total, "initial": before, "unit": "expected seconds"}
    found, facts = report.Found(plan.study), _settings(plan)
    with Progress(f"study {options.study}", **names) as progress:
        for number, job in enumerate(jobs, start=1):
            was_done, is_last = _is_done(job), number == len(jobs)
            found.add(job, _result(job, prepare, data))
            found.missing = len(jobs) - number
            if not was_done or is_last:
                report.write(found, options.output_dir, facts)
            if is_last or jobs[number].row is not job.row:
                report.draw(found, options.output_dir, plan.steps)
            if not was_done:
                figures = f"run {number} of {len(jobs)}: {job.folder}"
                progress.advance(round(job.seconds), figures)
            gc.collect()  # graphs of finished models
    return {}  # all is in the folders of the runs


def _require_same_data(jobs: Iterable[Job], data: StudyData) -> None:
    """Refuses other data than those of finished runs, before any run."""
    for job in jobs:
        if _is_done(job) and data.has(job.run):
            path = os.path.join(job.folder, _RUN)
            made_from = read_json(path)["made_from"]
            kept = {n: x for n, x in made_from.items() if not _FILE.search(n)}
            remedy = "give the same files, or another --output_dir"
            manifests.require_same(path, kept | data.checksums(job.run), remedy)


def _result(job: Job, prepare: Prepare, data: StudyData) -> dict[str, Any]:
    """Returns the result of a run; runs it unless it is done."""
    if not job.is_asked:
        return read_json(os.path.join(job.folder, _RUN))
    facts, function = prepare(job)
    facts |= data.checksums(job.run)
    recorded = RecordedRun(job.folder, _RUN, facts)
    return recorded.result or recorded.run(lambda: {"values": function()})


def _settings(plan: Plan) -> dict[str, str]:
    """Returns what the report says of text, model and pretraining."""
    data, sizes = plan.options.data, {**SIZES, **plan.study.sizes}
    length = f"{plan.steps} steps"
    if plan.minutes:
        length = f"{plan.minutes:g} minutes"
    rows = f"{plan.scale.batch_size} x {LENGTH} wordpieces"
    facts = {
        "scale": plan.options.scale,
        "text": os.path.basename(data.text or "that of `make demo`"),
        "model": f"{sizes['num_hidden_layers']} layers x "
        f"{sizes['hidden_size']} where a row does not say otherwise",
        "pretraining": f"{length} of {rows}, from --first_weights=neighbors",
    }
    if data.init_checkpoint:
        facts["model"] = os.path.basename(data.init_checkpoint.rstrip("/"))
        facts["pretraining"] = "none"
    if names := data.left_out(plan.study):
        facts["left out"] = f"{', '.join(names)}: of the text {NO_CASING}"
    return facts


def _is_done(job: Job) -> bool:
    """Whether a run has recorded a result; refuses a damaged record."""
    path = os.path.join(job.folder, _RUN)
    is_done = "seconds" in find_json(path, ("made_from",))
    return is_done and bool(read_json(path, ("values",)))
