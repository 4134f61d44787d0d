"""From finished shards to a finished data set with a manifest.

A shard that is written waits under a name of its own, its report beside it.
When all are there they get their names, and the manifest is written last: it
stands for a whole data set.
"""

import glob
import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping

from absl import logging

from data import files
from data.pretraining.plan import Plan, data_set_name
from data.pretraining.shards import (
    ShardReport,
    load_report,
    report_path,
)


def finished_shards(plan: Plan) -> dict[int, ShardReport]:
    """Finds the shards that an earlier run of the same plan has finished.

    Args:
      plan: of the run.

    Returns:
      Their reports by their index. A shard that is not what its report says
      is not finished.
    """
    reports = {}
    manifest = _load_manifest(plan)
    for task, output in zip(plan.tasks, plan.output_files, strict=True):
        report = load_report(task.path)
        if report and _has_size(task.path, report):
            reports[task.index] = report
            continue
        # A run that was stopped while it gave the shards their names, or
        # that ended well.
        report = report or manifest.get(task.index)
        if report and _is_whole(output, report):
            reports[task.index] = report
        elif files.exists(report_path(task.path)):
            files.remove(report_path(task.path))
    return reports


def publish(plan: Plan, reports: Mapping[int, ShardReport]) -> dict[str, int]:
    """Gives all shards their names and writes the manifest.

    Args:
      plan: of the run.
      reports: of all shards.

    Returns:
      The counts of all shards together (see `ShardReport`).
    """
    totals = Counter()
    for report in reports.values():
        totals.update(report.counts)
    manifest = _manifest(plan, reports, totals)
    waiting = [
        (task.path, output)
        for task, output in zip(plan.tasks, plan.output_files, strict=True)
        if files.exists(task.path)
    ]
    if waiting or not _holds(plan.manifest_path, manifest):
        if files.exists(plan.manifest_path):
            files.remove(plan.manifest_path)
        for path, output in waiting:
            files.rename(path, output)
        files.write_text(plan.manifest_path, manifest)
    _clean_up(plan)
    _warn_of_other_shards(plan)
    return dict(totals)


def _load_manifest(plan: Plan) -> dict[int, ShardReport]:
    """The shards of a finished data set, if the same plan made it."""
    if not files.exists(plan.manifest_path):
        return {}
    with files.open_read(plan.manifest_path) as file:
        try:
            manifest = json.loads(file.read())
            if manifest["made_from"] != plan.facts:
                return {}
            return {
                index: ShardReport(index, shard["counts"], shard["sha256"])
                for index, shard in enumerate(manifest["shards"])
            }
        except (ValueError, KeyError, TypeError):
            return {}  # somebody else's file: it will be written over


def _has_size(path: str, report: ShardReport) -> bool:
    return files.exists(path) and files.size(path) == report.counts["bytes"]


def _is_whole(path: str, report: ShardReport) -> bool:
    return _has_size(path, report) and files.sha256(path) == report.sha256


def _holds(path: str, text: str) -> bool:
    """Whether a file is there and holds a text."""
    if not files.exists(path):
        return False
    with files.open_read(path) as file:
        return file.read() == text.encode("utf-8")


def _clean_up(plan: Plan) -> None:
    """Removes the reports, and what killed runs left beside the shards."""
    for task in plan.tasks:
        if files.exists(report_path(task.path)):
            files.remove(report_path(task.path))
    for path in [*plan.output_files, plan.manifest_path]:
        if "://" in path:
            continue
        for rest in glob.glob(f"{glob.escape(files.incomplete(path, ''))}*"):
            if os.path.isdir(rest):
                shutil.rmtree(rest)
            else:
                os.remove(rest)


def _warn_of_other_shards(plan: Plan) -> None:
    """Tells of shards of the same name that are not of this data set."""
    name = data_set_name(plan.output_files)
    found = files.find(f"{glob.escape(name)}-?????-of-?????")
    if others := sorted(set(found) - set(plan.output_files)):
        logging.warning(
            "%d other shards lie beside these, such as %s: a glob like %s-* "
            "reads both; name %s@%d, or remove the others.",
            len(others),
            others[0],
            name,
            name,
            len(plan.output_files),
        )


def _manifest(
    plan: Plan, reports: Mapping[int, ShardReport], totals: Mapping[str, int]
) -> str:
    """What the data set is: readable by people and programs."""
    return json.dumps(
        {
            "counts": totals,
            "made_from": plan.facts,
            "shards": [
                {
                    "file": os.path.basename(output),
                    "sha256": reports[index].sha256,
                    "counts": reports[index].counts,
                }
                for index, output in enumerate(plan.output_files)
            ],
        },
        indent=1,
    )
