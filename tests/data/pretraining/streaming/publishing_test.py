"""Shards get their names together, and the manifest comes last."""

import hashlib
import json
import os
import pathlib

import pytest

from data.pretraining.report import warn_of_other_shards
from data.pretraining.streaming import all_shards
from data.pretraining.streaming.plan import make_plan
from data.pretraining.streaming.shards import load_report, write_shard
from data.storage import files, manifests
from tests.data.pretraining.support import (
    contents,
    recipe_of,
    shard_names,
    write_corpus,
)


@pytest.fixture
def make(tmp_path, vocab):
    """Makes a plan of 30 documents."""
    text = str(write_corpus(tmp_path / "a", 30))
    return lambda paths: make_plan([text], paths, recipe_of(vocab))


@pytest.fixture
def plan(out, make):
    return make(shard_names(out, 3))


@pytest.fixture
def reports(plan):
    return {task.index: write_shard(task) for task in plan.tasks}


def test_published_are_the_shards_and_a_manifest(out, plan, reports):
    counts = all_shards.publish(plan, reports)
    names = [f"out-{i:05d}-of-00003" for i in range(3)]
    assert sorted(contents(out)) == [*names, "out@3.manifest.json"]
    manifest = json.loads((out / "out@3.manifest.json").read_text())
    assert manifest["made_from"] == plan.facts
    assert manifest["counts"] == counts
    assert [shard["file"] for shard in manifest["shards"]] == names
    for shard, report in zip(manifest["shards"], reports.values(), strict=True):
        data = (out / shard["file"]).read_bytes()
        assert shard["sha256"] == hashlib.sha256(data).hexdigest()
        assert shard["counts"]["bytes"] == len(data)
        assert shard["counts"] == report["counts"]
    for name, count in counts.items():
        assert count == sum(s["counts"][name] for s in manifest["shards"])


@pytest.mark.parametrize("names", [("one", "two"), ("x/part", "y/part")])
def test_files_of_any_names_are_described_beside_each(out, make, names):
    paths = [str(out / name) for name in names]
    plan = make(paths)
    all_shards.publish(plan, {t.index: write_shard(t) for t in plan.tasks})
    assert list(all_shards.finished_shards(plan)) == [0, 1]
    for path in paths:
        shards = manifests.of_shard(path)["shards"]
        assert [x["file"] for x in shards] == list(map(os.path.basename, paths))
    found = {str(path) for path in out.rglob("*") if path.is_file()}
    assert found == {*paths, *(f"{path}.manifest.json" for path in paths)}


@pytest.mark.parametrize("num_renamed", [0, 1, 2, 3])
def test_publishing_that_was_cut_short_goes_on(
    out, plan, reports, monkeypatch, num_renamed
):
    renamed = []

    def rename(source, path, inner=files.rename):
        if len(renamed) == num_renamed:
            raise KeyboardInterrupt
        renamed.append(path)
        inner(source, path)

    def write_text(path, text):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "rename", rename)
        patch.setattr(files, "write_text", write_text)
        with pytest.raises(KeyboardInterrupt):
            all_shards.publish(plan, reports)
    assert len(renamed) == num_renamed
    assert not (out / "out@3.manifest.json").exists()
    assert all_shards.finished_shards(plan) == reports
    all_shards.publish(plan, reports)
    assert len(contents(out)) == 4


def test_a_shard_that_is_not_as_reported_is_not_finished(plan, reports):
    # A power cut may leave a file with its name and without all its bytes.
    with open(plan.tasks[0].path, "r+b") as file:
        file.truncate(100)
    files.remove(plan.tasks[1].path)
    # Of the right size, but another content.
    with open(plan.tasks[2].path, "r+b") as file:
        file.seek(50)
        file.write(b"???")
    assert not all_shards.finished_shards(plan)
    # Its report is gone, or it would not be written again.
    assert not any(load_report(task.path) for task in plan.tasks)
    assert {task.index: write_shard(task) for task in plan.tasks} == reports


@pytest.mark.parametrize(
    "changed",
    [
        {"made_from": 1},
        {"shards": None},
        {"shards": [{}] * 3},
        {"shards": [{"file": "out-00001-of-00003"}]},
    ],
)
def test_a_manifest_of_other_things_is_replaced(out, plan, reports, changed):
    all_shards.publish(plan, reports)
    expected = contents(out)
    path = out / "out@3.manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    assert all_shards.finished_shards(plan) == {}
    for task in plan.tasks:
        write_shard(task)
    all_shards.publish(plan, all_shards.finished_shards(plan))
    assert contents(out) == expected


def test_what_killed_runs_left_is_removed_and_others_told_of(
    tmp_path, out, plan, reports, logged
):
    # Files of another run, which may be active, are kept.
    other = "out-00001-of-00003.incomplete-0123456789ab"
    others = {other, f"{other}.json", f"{other}.incomplete-7"}
    for name in others | {"out-00001-of-00003.mine"}:
        (out / name).write_text("rest")
    pathlib.Path(f"{plan.tasks[1].path}.incomplete-7").write_text("rest")
    buckets = pathlib.Path(f"{plan.tasks[0].path}.shuffle-x")
    buckets.mkdir()
    (buckets / "00000").write_text("rest")
    target = tmp_path / "target"
    target.mkdir()
    (target / "kept").touch()
    pathlib.Path(f"{plan.tasks[0].path}.shuffle-y").symlink_to(target)
    all_shards.publish(plan, reports)
    expected = {*map(os.path.basename, plan.outputs), "out@3.manifest.json"}
    expected |= others | {"out-00001-of-00003.mine"}
    assert {path.name for path in out.iterdir()} == expected
    assert (target / "kept").exists()
    told = "3 files of unfinished runs with other flags exist"
    assert logged.messages[-1].startswith(f"{told}, such as {out}/{other};")


def test_shards_of_an_earlier_number_are_logged(out, plan, reports, caplog):
    caplog.set_level("WARNING", logger="absl")
    all_shards.publish(plan, reports)
    assert not caplog.messages
    (out / "out-00000-of-00007").write_bytes(b"")
    (out / "out-x-00000-of-00007").write_bytes(b"")
    all_shards.publish(plan, reports)
    (message,) = caplog.messages
    assert f"1 other shards are there, such as {out}/out-00000" in message
    assert f"read {out}/out@3, not {out}/out-*," in message
    # A part of a set that is written alone has not its text.
    warn_of_other_shards(plan.outputs[:1])
    assert f"read {plan.outputs[0]}, not {out}/out-*," in caplog.messages[-1]
