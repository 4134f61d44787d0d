"""Turns finished shards into a data set with a manifest.

A finished shard has a temporary name, with its report beside it. When all
shards are finished, they are renamed. The manifest is written last, so that it
exists only for a complete data set.
"""

import glob
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from typing import Any

from absl import logging

from data.pretraining.streaming.plan import Plan
from data.pretraining.streaming.shards import load_report, report_path
from data.storage import files, manifests
from data.storage.json_files import write_json

# Index of a shard -> its report.
Reports = Mapping[int, Mapping[str, Any]]


def finished_shards(plan: Plan) -> dict[int, dict[str, Any]]:
    """Returns the reports of the shards that an earlier run finished.

    A shard that differs from its report is not finished.
    """
    reports = {}
    published = [None] * len(plan.tasks)
    manifest = manifests.of_shard(plan.tasks[0].output)
    if manifest.get("made_from") == plan.facts:
        published = manifest["shards"]
    for task, other in zip(plan.tasks, published, strict=True):
        report = load_report(task.path) or other
        # Without the first file, the shard has its final name: the run ended
        # or was stopped while it renamed the shards.
        if report and any(
            manifests.is_complete(path, report["sha256"])
            for path in (task.path, task.output)
        ):
            reports[task.index] = report
        else:
            files.remove(report_path(task.path))
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
        files.remove(report_path(task.path))
        for rest in glob.glob(f"{glob.escape(task.path)}.*"):
            if os.path.isdir(rest) and not os.path.islink(rest):
                shutil.rmtree(rest)
            else:
                os.remove(rest)


def _log_other_files(plan: Plan) -> None:
    """Logs files of the same name that are not part of this data set."""
    name = manifests.data_set_name(plan.outputs)
    if rests := files.find(f"{glob.escape(name)}*{files.incomplete('', '')}*"):
        logging.info(
            f"{len(rests)} files of unfinished runs with other flags exist, "
            f"such as {rests[0]}; remove them if no such run is active."
        )
    found = files.find(f"{glob.escape(name)}-?????-of-?????")
    if others := sorted(set(found) - set(plan.outputs)):
        logging.warning(
            f"{len(others)} other shards are there, such as {others[0]}: read "
            f"{name}@{len(plan.tasks)}, not {name}-*, or remove the others."
        )
