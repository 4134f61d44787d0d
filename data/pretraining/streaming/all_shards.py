"""Writes record shards of text of any size, on several processes.

    make_plan -> write_shard for each missing shard -> publish

One worker writes each shard. A run that was stopped continues with the missing
shards. A finished shard has a temporary name, with its report beside it. When
all shards are finished, they are renamed. The manifest is written last, so that
it exists only for a complete data set.
"""

import glob
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from absl import logging

from data import progress
from data.pretraining.recipe import Recipe
from data.pretraining.report import (
    log_counts,
    warn_of_few_predictions,
    warn_of_other_shards,
)
from data.pretraining.streaming import shards
from data.pretraining.streaming.plan import Plan, make_plan
from data.processes import Workers
from data.storage import files, manifests, outputs
from data.storage.json_files import write_json

# Index of a shard -> its report.
Reports = dict[int, dict[str, Any]]
# Writes the given shards and returns when all are finished.
Runner = Callable[[Sequence[shards.ShardTask]], None]


def write_shards(
    input_files: Sequence[str],
    output_files: Sequence[str],
    recipe: Recipe,
    *,
    num_processes: int = 1,
    runner: Runner | None = None,
) -> dict[str, int]:
    """Writes shuffled shards of examples, which appear when all are complete.

    The text is UTF-8, one sentence on each line, a blank line between
    documents; a document ends with its file. The output does not depend on the
    number of processes; `runner` writes the shards in their place. Returns the
    summed counts of `write_shard`, which are also in the manifest. For errors
    see `check` and `make_plan`.
    """
    start_s = time.monotonic()
    check(input_files, output_files, recipe)
    if recipe.options.masking == "static":  # else run_pretraining.py masks
        warn_of_few_predictions(recipe.options)
    if len(output_files) < num_processes:
        logging.warning(
            f"--output_file names {len(output_files)} files, each written by "
            f"one of the {num_processes} processes; the others have no work. "
            f"Name more files, such as NAME@{num_processes}."
        )
    with Workers(num_processes) as workers:
        plan = make_plan(input_files, output_files, recipe, workers.map)
        reports = finished_shards(plan)
        _write_missing(plan, reports, workers, runner)
    for sample in reports[0].get("samples", ()):
        logging.info("%s", sample)
    counts = publish(plan, reports)
    log_counts(counts, recipe.options, time.monotonic() - start_s)
    manifest_path = manifests.path_of(output_files)
    logging.info("The records are described in %s.", manifest_path)
    return counts


def _write_missing(
    plan: Plan, reports: Reports, workers: Workers, runner: Runner | None
) -> None:
    """Writes the shards that have no report, and adds their reports."""
    missing = [task for task in plan.tasks if task.index not in reports]
    if reports:
        counts = len(reports), len(plan.tasks)
        logging.info("%d of %d shards are finished already.", *counts)
    try:
        if runner and missing:
            runner(missing)
        else:
            _write_here(missing, workers)
    except BaseException:
        workers.stop()  # none finishes a shard after they are counted
        # A report is there if its shard is complete. Nothing is read: ^C should
        # not wait for terabytes.
        paths = [shards.report_path(task.path) for task in missing]
        count = len(reports) + sum(map(files.exists, paths))
        logging.info(
            f"{count} of {len(plan.tasks)} shards are finished and kept; the "
            "same command continues with the others."
        )
        raise
    for task in missing:
        if not (report := shards.load_report(task.path)):
            raise OSError(
                f"{task.path} is missing: does another run have the same "
                "--output_file, or can a machine of --runner not write there?"
            )
        reports[task.index] = report


def _write_here(tasks: Sequence[shards.ShardTask], workers: Workers) -> None:
    """Writes shards on the workers and shows progress."""
    total = sum(task.num_bytes for task in tasks)
    num_examples = num_finished = 0
    with progress.Progress("writing", total=total, unit="bytes") as shown:

        def advance(num_bytes: int, more_examples: int) -> None:
            nonlocal num_examples
            num_examples += more_examples
            finished = f"{num_finished} of {len(tasks)} shards"
            shown.advance(num_bytes, f"{num_examples:,} examples, {finished}")

        for _ in workers.run(shards.write_shard, tasks, advance):
            num_finished += 1
            advance(0, 0)


def check(
    input_files: Sequence[str], output_files: Sequence[str], recipe: Recipe
) -> None:
    """Refuses outputs and vocabularies that cannot be used.

    Raises ValueError for an output that is an input, a device or a pipe, or is
    given twice, and for a device or pipe as input; OSError for an output that
    cannot be written. For the vocabulary see `make_tools`.
    """
    read, written = {"input_file": input_files}, {"output_file": output_files}
    outputs.check(read | {"vocab_file": [recipe.vocab_file]}, written)
    for flag, paths in (read | written).items():
        for path in filter(files.is_stream, paths):
            raise ValueError(
                f"--{flag}: {path} is a device or pipe, which --num_processes "
                "cannot read again; give a file, or leave out --num_processes."
            )
    shards.tools_of(recipe)


def finished_shards(plan: Plan) -> Reports:
    """Returns the reports of the shards that an earlier run finished.

    A shard that differs from its report is not finished.
    """
    reports = {}
    manifest = manifests.of_shard(plan.tasks[0].output)
    is_same = manifest.get("made_from") == plan.facts
    published = dict(enumerate(manifest["shards"] if is_same else ()))
    for task in plan.tasks:
        report = shards.load_report(task.path) or published.get(task.index, {})
        # Without the first file, the shard has its final name: the run ended
        # or was stopped while it renamed the shards.
        if "sha256" in report and any(
            manifests.is_complete(path, report["sha256"])
            for path in (task.path, task.output)
        ):
            reports[task.index] = report
        else:
            files.remove(shards.report_path(task.path))
    return reports


def publish(plan: Plan, reports: Reports) -> dict[str, int]:
    """Renames all shards and writes the manifest; returns summed counts."""
    totals = Counter()
    for report in reports.values():
        totals.update(report["counts"])
    # Shards count each part of a divided document as a document.
    totals["documents"] = sum(f["documents"] for f in plan.facts["corpus"])
    manifest = {
        "counts": totals,
        "vocab_size": plan.tasks[0].recipe.num_ids,
        "made_from": plan.facts,
        "shards": [
            {
                "file": os.path.basename(task.output),
                "sha256": reports[task.index]["sha256"],
                "counts": reports[task.index]["counts"],
            }
            for task in plan.tasks
        ],
    }
    waiting = [task for task in plan.tasks if files.exists(task.path)]
    paths = dict.fromkeys(manifests.path_of([path]) for path in plan.outputs)
    if waiting or manifests.read(next(iter(paths))) != manifest:
        manifests.remove(plan.outputs)
        for task in waiting:
            files.rename(task.path, task.output)
        # The first one is the last: it says that all are complete.
        for path in reversed(paths):
            write_json(path, manifest)
    _clean_up(plan)
    _log_other_files(plan)
    return dict(totals)


def _clean_up(plan: Plan) -> None:
    """Removes the reports and the temporary files of killed runs."""
    for task in plan.tasks:
        files.remove(shards.report_path(task.path))
        for rest in files.find(f"{glob.escape(task.path)}.*"):
            if os.path.isdir(rest) and not os.path.islink(rest):
                shutil.rmtree(rest)
            else:
                files.remove(rest)


def _log_other_files(plan: Plan) -> None:
    """Logs files of the same name that are not part of this data set."""
    name = manifests.data_set_name(plan.outputs)
    if rests := files.find(f"{glob.escape(name)}*{files.incomplete('', '')}*"):
        logging.info(
            f"{len(rests)} files of unfinished runs with other flags exist, "
            f"such as {rests[0]}; remove them if no such run is active."
        )
    warn_of_other_shards(plan.outputs)
