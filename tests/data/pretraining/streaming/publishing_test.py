"""Shards get their names together, and the manifest comes last."""

import hashlib
import json
import pathlib

import pytest

from data.pretraining.streaming import all_shards
from data.pretraining.streaming.plan import make_plan
from data.pretraining.streaming.shards import load_report, write_shard
from data.storage import files, manifests
from tests.data.pretraining.support import (
    contents,
    recipe_of,
    shard_names,
    write_corpus,
    write_number_vocab,
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def plan(tmp_path, folder):
    return make_plan(
        [str(write_corpus(tmp_path / "a", 30))],
        shard_names(folder, 3),
        recipe_of(write_number_vocab(tmp_path / "vocab.txt", 100)),
    )


@pytest.fixture
def reports(plan):
    return {task.index: write_shard(task) for task in plan.tasks}


def test_published_are_the_shards_and_a_manifest(folder, plan, reports):
    assert not [
        path
        for path in folder.iterdir()
        if path.name[-1].isdigit() and ".incomplete-" not in path.name
    ]
    counts = all_shards.publish(plan, reports)
    names = [f"out-{i:05d}-of-00003" for i in range(3)]
    assert sorted(contents(folder)) == [*names, "out@3.manifest.json"]
    manifest = json.loads((folder / "out@3.manifest.json").read_text())
    assert manifest["made_from"] == plan.facts
    assert manifest["counts"] == counts
    assert [shard["file"] for shard in manifest["shards"]] == names
    for shard, report in zip(manifest["shards"], reports.values(), strict=True):
        data = (folder / shard["file"]).read_bytes()
        assert shard["sha256"] == hashlib.sha256(data).hexdigest()
        assert shard["counts"]["bytes"] == len(data)
        assert shard["counts"] == report["counts"]
    for name, count in counts.items():
        assert count == sum(s["counts"][name] for s in manifest["shards"])


def test_files_of_any_names_are_described_beside_each(tmp_path, folder):
    plan = make_plan(
        [str(write_corpus(tmp_path / "a", 30))],
        [str(folder / "one"), str(folder / "two")],
        recipe_of(write_number_vocab(tmp_path / "vocab.txt", 100)),
    )
    all_shards.publish(plan, {t.index: write_shard(t) for t in plan.tasks})
    names = "one", "two"
    manifest = ".manifest.json"
    assert {*contents(folder)} == {*names, *(f"{x}{manifest}" for x in names)}
    for name in names:
        shards = manifests.of_shard(str(folder / name))["shards"]
        assert [shard["file"] for shard in shards] == ["one", "two"]


@pytest.mark.parametrize("num_renamed", [0, 1, 2, 3])
def test_publishing_that_was_cut_short_goes_on(
    folder, plan, reports, monkeypatch, num_renamed
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
    assert not (folder / "out@3.manifest.json").exists()
    assert all_shards.finished_shards(plan) == reports
    all_shards.publish(plan, reports)
    assert len(contents(folder)) == 4


def test_a_shard_that_is_not_what_its_report_says_is_not_finished(
    plan, reports
):
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
    again = {task.index: write_shard(task) for task in plan.tasks}
    assert again == reports


def test_a_damaged_report_costs_its_shard_only(plan, reports):
    files.write_text(f"{plan.tasks[1].path}.json", '{"index": 1, "cou')
    assert list(all_shards.finished_shards(plan)) == [0, 2]
    assert write_shard(plan.tasks[1]) == reports[1]


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"?" + path.read_bytes()[1:]),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.unlink(),
    ],
)
def test_a_published_shard_that_was_damaged_is_not_finished(
    folder, plan, reports, damage
):
    all_shards.publish(plan, reports)
    damage(folder / "out-00001-of-00003")
    assert list(all_shards.finished_shards(plan)) == [0, 2]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"made_from": 1}', "\xff"]
)
def test_a_manifest_of_something_else_is_written_over(
    folder, plan, reports, text
):
    all_shards.publish(plan, reports)
    expected = contents(folder)
    (folder / "out@3.manifest.json").write_bytes(text.encode("latin1"))
    assert all_shards.finished_shards(plan) == {}
    for task in plan.tasks:
        write_shard(task)
    all_shards.publish(plan, all_shards.finished_shards(plan))
    assert contents(folder) == expected


def test_shards_of_a_damaged_manifest_are_written_again(folder, plan, reports):
    all_shards.publish(plan, reports)
    path = folder / "out@3.manifest.json"
    manifest = json.loads(path.read_text())
    for damaged in (manifest["shards"][1:], None, [{}] * 3):
        path.write_text(json.dumps(manifest | {"shards": damaged}))
        assert all_shards.finished_shards(plan) == {}


def test_shards_of_one_name_in_two_folders_are_finished(tmp_path):
    names = [str(tmp_path / folder / "part") for folder in "xy"]
    vocab = write_number_vocab(tmp_path / "vocab.txt", 100)
    text = str(write_corpus(tmp_path / "a", 30))
    plan = make_plan([text], names, recipe_of(vocab))
    reports = {task.index: write_shard(task) for task in plan.tasks}
    all_shards.publish(plan, reports)
    assert list(all_shards.finished_shards(plan)) == [0, 1]


def test_publishing_twice_touches_nothing(folder, plan, reports):
    all_shards.publish(plan, reports)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    all_shards.publish(plan, all_shards.finished_shards(plan))
    after = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert after == before


def test_what_killed_runs_left_is_removed_and_others_told_of(
    tmp_path, folder, plan, reports, caplog
):
    caplog.set_level("INFO", logger="absl")
    expected = {f"out-{i:05d}-of-00003" for i in range(3)}
    expected |= {"out@3.manifest.json", "out-00001-of-00003.mine"}
    # Files of another run, which may be active, are kept.
    other = "out-00001-of-00003.incomplete-0123456789ab"
    expected |= {other, f"{other}.json", f"{other}.incomplete-7"}
    for name in expected - {"out@3.manifest.json"}:
        if name not in contents(folder):
            (folder / name).write_text("rest")
    half = pathlib.Path(f"{plan.tasks[1].path}.incomplete-7")
    half.write_text("rest")
    buckets = pathlib.Path(f"{plan.tasks[0].path}.shuffle-x")
    buckets.mkdir()
    (buckets / "00000").write_text("rest")
    target = tmp_path / "target"
    target.mkdir()
    (target / "kept").touch()
    link = pathlib.Path(f"{plan.tasks[0].path}.shuffle-y")
    link.symlink_to(target)
    for i in range(3):
        (folder / f"out-{i:05d}-of-00003").unlink(missing_ok=True)
    all_shards.publish(plan, reports)
    assert {path.name for path in folder.iterdir()} == expected
    assert (target / "kept").exists()
    assert caplog.messages[-1] == (
        "3 files of unfinished runs with other flags exist, "
        f"such as {folder}/{other}; remove them if no such run is active."
    )


def test_shards_of_an_earlier_number_are_logged(folder, plan, reports, caplog):
    caplog.set_level("WARNING", logger="absl")
    all_shards.publish(plan, reports)
    assert not caplog.messages
    (folder / "out-00000-of-00007").write_bytes(b"")
    (folder / "out-x-00000-of-00007").write_bytes(b"")
    all_shards.publish(plan, reports)
    (message,) = caplog.messages
    assert message == (
        f"1 other shards are there, such as {folder}/out-00000-of-00007: read "
        f"{folder}/out@3, not {folder}/out-*, or remove the others."
    )
