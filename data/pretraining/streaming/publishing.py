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
    manifest = manifests.of_shard(plan.output_files[0])
    if manifest.get("made_from") == plan.facts:
        published = manifest["shards"]
    for task, output, other in zip(
        plan.tasks, plan.output_files, published, strict=True
    ):
        report = load_report(task.path)
        # Without the first file, the shard has its final name: the run ended
        # or was stopped while it renamed the shards.
        if _is_whole(task.path, report) or _is_whole(output, report or other):
            reports[task.index] = report or other
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
                "file": os.path.basename(output),
                "sha256": reports[index]["sha256"],
                "counts": reports[index]["counts"],
            }
            for index, output in enumerate(plan.output_files)
        ],
    }
    waiting = [
        (task.path, output)
        for task, output in zip(plan.tasks, plan.output_files, strict=True)
        if files.exists(task.path)
    ]
    if waiting or manifests.read(plan.manifest_path) != manifest:
        manifests.remove(plan.output_files)
        for path, output in waiting:
            files.rename(path, output)
        # The first one is the last: it says that all are complete.
        names = dict.fromkeys(manifests.path_of([p]) for p in plan.output_files)
        for path in reversed(names):
            write_json(path, manifest)
    _clean_up(plan)
    _log_other_files(plan)
    return dict(totals)


def _is_whole(path: str, report: Mapping[str, Any] | None) -> bool:
    return bool(report) and manifests.is_complete(path, report["sha256"])


def _clean_up(plan: Plan) -> None:
    """Removes the reports and the temporary files of killed runs."""
    for task in plan.tasks:
        files.remove(report_path(task.path))
        if "://" not in task.path:
            for rest in glob.glob(f"{glob.escape(task.path)}.*"):
                if os.path.isdir(rest) and not os.path.islink(rest):
                    shutil.rmtree(rest)
                else:
                    os.remove(rest)


def _log_other_files(plan: Plan) -> None:
    """Logs files of the same name that are not part of this data set."""
    name = manifests.data_set_name(plan.output_files)
    if rests := files.find(f"{glob.escape(name)}*{files.incomplete('', '')}*"):
        logging.info(
            f"{len(rests)} files of unfinished runs with other flags are "
            f"beside the output, such as {rests[0]}; remove them if no such "
            "run is active."
        )
    found = files.find(f"{glob.escape(name)}-?????-of-?????")
    if others := sorted(set(found) - set(plan.output_files)):
        logging.warning(
            f"{len(others)} other shards are beside these, such as "
            f"{others[0]}: a glob like {name}-* reads both; use "
            f"{name}@{len(plan.output_files)}, or remove the others."
        )
