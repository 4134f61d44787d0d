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
from typing import Any

from absl import logging

from data.pretraining.streaming.plan import Plan, data_set_name
from data.pretraining.streaming.shards import (
    ShardReport,
    load_report,
    report_path,
)
from data.storage import files


def finished_shards(plan: Plan) -> dict[int, ShardReport]:
    """Finds the shards that an earlier run of the same plan has finished.

    Args:
      plan: of the run.

    Returns:
      Their reports by their index. A shard that is not what its report says
      is not finished.
    """
    reports = {}
    of_manifest = _shards_of_manifest(plan)
    for task, output in zip(plan.tasks, plan.output_files, strict=True):
        report = load_report(task.path)
        if report and _is_whole(task.path, report):
            reports[task.index] = report
            continue
        # A run that was stopped while it gave the shards their names, or
        # that ended well.
        report = report or of_manifest.get(task.index)
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
    # The shards count the parts of a document that was cut.
    totals["documents"] = sum(f["documents"] for f in plan.facts["corpus"])
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
    _tell_of_other_files(plan)
    return dict(totals)


def manifest_of(path: str) -> dict[str, Any] | None:
    """Reads the manifest of the data set that a shard is of.

    Args:
      path: of the shard.

    Returns:
      What `publish` wrote, with `made_from`, `counts` and `shards`; None if
      there is none that names this shard.
    """
    manifest = _read_manifest(data_set_name([path]) + files.MANIFEST_SUFFIX)
    try:
        names = {shard["file"] for shard in manifest["shards"]}
        return manifest if os.path.basename(path) in names else None
    except (KeyError, TypeError):
        return None


def _read_manifest(path: str) -> Any:
    """What a manifest holds; None if there is none or it is none."""
    if not files.exists(path):
        return None
    with files.open_read(path) as file:
        try:
            return json.loads(file.read())
        except ValueError:
            return None


def _shards_of_manifest(plan: Plan) -> dict[int, ShardReport]:
    """The shards of a finished data set, if the same plan made it."""
    manifest = _read_manifest(plan.manifest_path)
    try:
        if manifest["made_from"] != plan.facts:
            return {}
        return {
            index: ShardReport(index, shard["counts"], shard["sha256"])
            for index, shard in enumerate(manifest["shards"])
        }
    except (KeyError, TypeError):
        return {}  # somebody else's file: it will be written over


def _is_whole(path: str, report: ShardReport) -> bool:
    return (
        files.exists(path)
        and files.size(path) == report.counts["bytes"]
        and files.sha256(path) == report.sha256
    )


def _holds(path: str, text: str) -> bool:
    """Whether a file is there and holds a text."""
    if not files.exists(path):
        return False
    with files.open_read(path) as file:
        return file.read() == text.encode("utf-8")


def _clean_up(plan: Plan) -> None:
    """Removes the reports, and what killed runs of this plan left."""
    for task in plan.tasks:
        if files.exists(report_path(task.path)):
            files.remove(report_path(task.path))
        if "://" not in task.path:
            for rest in glob.glob(f"{glob.escape(task.path)}.*"):
                if os.path.isdir(rest) and not os.path.islink(rest):
                    shutil.rmtree(rest)
                else:
                    os.remove(rest)


def _tell_of_other_files(plan: Plan) -> None:
    """Tells of files of the same name that are not of this data set."""
    name = data_set_name(plan.output_files)
    if rests := files.find(f"{glob.escape(name)}*{files.incomplete('', '')}*"):
        logging.info(
            "%d files of runs with other flags that did not end lie beside "
            "the output, such as %s; remove them if no such run goes on.",
            len(rests),
            rests[0],
        )
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
