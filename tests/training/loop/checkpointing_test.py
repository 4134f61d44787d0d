"""Checkpoints that are damaged, cut short or half there."""

import json
import os
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf

from modeling import checkpoints
from modeling.checkpoints import tf1
from tests.support.records_support import flipped
from tests.training.support import FILES
from training.loop import resume_point
from training.loop.checkpointing import CheckpointManager, ResumePoint


def save(folder, steps=(1, 2), keep_max=5):
    """Saves two small variables that hold the step, at some steps."""
    manager = CheckpointManager(str(folder), keep_max)
    for step in steps:
        manager.save(variables(step), ResumePoint(step, 8 * step, 7, 100))
    return manager


def variables(value=0.0):
    return {
        name: tf.Variable(tf.fill([3], float(value)))
        for name in ("bert/one", "bert/one/adam_m")
    }


def restored_step(manager):
    """Restores; all that is restored must be of one step."""
    values = variables()
    point = manager.restore(values)
    step = point.global_step
    if not step:
        return None
    for variable in values.values():
        np.testing.assert_array_equal(variable, [step] * 3)
    assert point.examples_seen == 8 * step
    return step


def damage(path, position, mask):
    path.write_bytes(flipped(path.read_bytes(), position, mask))


@pytest.mark.parametrize("ending", FILES)
def test_one_damaged_byte_anywhere_is_noticed(tmp_path, caplog, ending):
    manager = save(tmp_path)
    assert restored_step(manager) == 2
    path = tmp_path / f"model.ckpt-2{ending}"
    whole = path.read_bytes()
    rng = random.Random(len(whole))
    for position in range(len(whole)):
        mask = rng.randrange(1, 256)
        damage(path, position, mask)
        caplog.clear()
        assert restored_step(manager) == 1, (position, mask)
        assert str(tmp_path / "model.ckpt-2") in caplog.text
        assert "damaged" in caplog.text
        assert "Trying the checkpoint before it." in caplog.text
        path.write_bytes(whole)
    assert restored_step(manager) == 2


def test_damage_is_noticed_by_who_reads_only_some_variables(tmp_path):
    manager = save(tmp_path)
    path = tmp_path / f"model.ckpt-2{FILES[1]}"
    whole = path.read_bytes()
    for position in range(len(whole)):
        damage(path, position, 0x10)
        only = {"bert/one": variables()["bert/one"]}
        assert manager.restore(only).global_step == 1
        path.write_bytes(whole)


@pytest.mark.parametrize("ending", FILES[:2])
def test_a_checkpoint_of_the_original_is_checked_too(tmp_path, ending):
    # It has no record: TensorFlow's own checksums.
    manager = save(tmp_path)
    os.remove(tmp_path / "model.ckpt-2.resume.json")
    assert manager.restore(variables()) == ResumePoint(2)
    damage(tmp_path / f"model.ckpt-2{ending}", 10, 0x10)
    assert restored_step(manager) == 1


@pytest.mark.parametrize("size", [0, 1, 20])
@pytest.mark.parametrize("ending", FILES)
def test_a_file_cut_short_is_noticed(tmp_path, ending, size, caplog):
    manager = save(tmp_path)
    os.truncate(tmp_path / f"model.ckpt-2{ending}", size)
    assert restored_step(manager) == 1
    assert str(tmp_path / "model.ckpt-2") in caplog.text


def test_a_missing_data_file_is_noticed(tmp_path, caplog):
    manager = save(tmp_path)
    os.remove(tmp_path / f"model.ckpt-2{FILES[1]}")
    assert restored_step(manager) == 1
    assert "damaged or incomplete" in caplog.text


def test_files_of_two_saves_are_no_checkpoint(tmp_path):
    manager = save(tmp_path, steps=(1, 2, 3))
    shutil.copy(
        tmp_path / "model.ckpt-2.index", tmp_path / "model.ckpt-3.index"
    )
    assert restored_step(manager) == 2


def test_if_all_are_damaged_nothing_is_begun_anew(tmp_path):
    manager = save(tmp_path)
    for step in (1, 2):
        damage(tmp_path / f"model.ckpt-{step}.index", 5, 1)
    with pytest.raises(ValueError, match=r"every checkpoint .* \[1, 2\]"):
        manager.restore(variables())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\x00\xfe garbage",
        b"model_checkpoint_pa",
        b'model_checkpoint_path: "model.ckpt-77"\n',
        b'model_checkpoint_path: "model.ckpt-1',
    ],
)
def test_a_damaged_list_of_checkpoints_costs_nothing(tmp_path, caplog, content):
    manager = save(tmp_path)
    (tmp_path / "checkpoint").write_bytes(content)
    assert restored_step(manager) == 2
    assert f"{tmp_path}: its `checkpoint` file is damaged" in caplog.text
    assert "taking the newest checkpoint" in caplog.text


def test_a_record_of_an_earlier_version_is_read(tmp_path):
    manager = save(tmp_path)
    path = tmp_path / "model.ckpt-2.resume.json"
    record = json.loads(path.read_text())
    del record["sha256"], record["index_sha256"]
    path.write_text(json.dumps(record))
    assert restored_step(manager) == 2


@pytest.mark.parametrize("content", ["[]", "3", '"text"', "{", "null"])
def test_a_record_that_is_none_is_damaged(tmp_path, content, caplog):
    manager = save(tmp_path)
    (tmp_path / "model.ckpt-2.resume.json").write_text(content)
    assert restored_step(manager) == 1
    assert "model.ckpt-2.resume.json is damaged." in caplog.text


class Killed(BaseException):
    pass


@pytest.mark.parametrize("ending", FILES[:2])
def test_a_run_killed_while_it_removed_a_checkpoint_leaves_nothing(
    tmp_path, monkeypatch, ending
):
    remove = tf.io.gfile.remove

    def remove_and_die(path):
        remove(path)
        if path.endswith(f"model.ckpt-1{ending}"):
            raise Killed

    manager = save(tmp_path, steps=(1, 2), keep_max=2)
    # Other files, and a checkpoint of the first release, without an index.
    for name in ("bert_model.ckpt.data-00000-of-00001", "model.ckpt-1.meta"):
        (tmp_path / name).touch()
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(tf.io.gfile, "remove", remove_and_die)
        save(tmp_path, steps=(3,), keep_max=2)
    assert (tmp_path / "model.ckpt-1.resume.json").exists()
    manager.remove_leftovers()
    assert {path.name for path in tmp_path.iterdir()} == {
        *("bert_model.ckpt.data-00000-of-00001", "checkpoint"),
        "model.ckpt-1.meta",
        *(f"model.ckpt-{step}{ending}" for step in (2, 3) for ending in FILES),
    }
    assert restored_step(manager) == 3


def test_what_a_leftover_links_to_is_not_removed(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "kept").touch()
    out = tmp_path / "out"
    staging = out / "model.ckpt-3.incomplete-7"
    staging.mkdir(parents=True)
    (staging / "link").symlink_to(target)
    (out / "model.ckpt-4.incomplete-7").symlink_to(target)
    CheckpointManager(str(out)).remove_leftovers()
    assert list(out.iterdir()) == []
    assert (target / "kept").exists()


def stripped(folder, step):
    """Whether the checkpoint of a step has weights and step alone."""
    checkpoint = checkpoints.Checkpoint(str(folder / f"model.ckpt-{step}"))
    return checkpoint.shapes.keys() == {"bert/one", "global_step"}


def test_slots_are_removed_and_the_record_stays(tmp_path, caplog):
    manager = save(tmp_path, steps=(2,))
    before = manager.restore(variables())
    manager.strip()
    assert stripped(tmp_path, 2)
    values = variables()
    caplog.clear()
    point = manager.restore(values)
    assert point.global_step == 2
    np.testing.assert_array_equal(values["bert/one"], [2] * 3)
    np.testing.assert_array_equal(values["bert/one/adam_m"], [0] * 3)
    # It is known that the slots are not there.
    assert not caplog.records
    assert not before.is_stripped
    assert point == before._replace(is_stripped=True)
    index = (tmp_path / "model.ckpt-2.index").read_bytes()
    manager.strip()  # a second time nothing happens
    assert (tmp_path / "model.ckpt-2.index").read_bytes() == index
    damage(tmp_path / "model.ckpt-2.index", 20, 1)
    with pytest.raises(ValueError, match="every checkpoint in .* is damaged"):
        manager.restore(variables())


def test_every_checkpoint_is_stripped_but_a_damaged_one(tmp_path, caplog):
    manager = save(tmp_path, steps=(1, 2, 3))
    damage(tmp_path / "model.ckpt-2.index", 20, 1)
    manager.strip()
    assert stripped(tmp_path, 1) and stripped(tmp_path, 3)
    assert "model.ckpt-2.index is damaged" in caplog.text
    assert "Its slots are left." in caplog.text


@pytest.mark.parametrize(
    ("where", "number"),
    [("_move", 0), ("_move", 1), ("_move", 2), ("write", 0)],
)
def test_a_kill_while_slots_are_removed_leaves_the_weights(
    tmp_path, monkeypatch, where, number
):
    manager = save(tmp_path, steps=(2,))
    module = tf1 if where == "_move" else resume_point
    original, calls = getattr(module, where), []

    def killed(*arguments, **more):
        if len(calls) == number:
            raise Killed
        calls.append(arguments)
        original(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(module, where, killed)
        if (where, number) == ("_move", 2):  # it is moved only twice
            manager.strip()
        else:
            with pytest.raises(Killed):
                manager.strip()
    values = variables()
    point = CheckpointManager(str(tmp_path)).restore(values)
    assert (point.global_step, point.examples_seen) == (2, 16)
    np.testing.assert_array_equal(values["bert/one"], [2] * 3)
    manager.strip()
    assert stripped(tmp_path, 2)
    assert manager.restore(variables()).is_stripped


def test_the_latest_is_kept_and_what_comes_after_it(tmp_path, logged):
    manager = save(tmp_path, steps=(1, 2, 3, 4))
    checkpoints.tf1.write_state(str(tmp_path), ["model.ckpt-3"])
    (tmp_path / "model.ckpt-1.resume.json").unlink()  # as the original's
    manager.keep_latest()
    assert manager.steps() == [1, 3, 4]
    assert restored_step(manager) == 3
    assert "Removed checkpoints 2; --keep_checkpoint_max=5" in logged.text


def test_checkpoints_that_an_earlier_command_kept_are_not_removed_in_silence(
    tmp_path, caplog
):
    save(tmp_path, steps=(1, 2, 3, 4), keep_max=0)
    save(tmp_path, steps=(5,), keep_max=2)
    assert "steps 1, 2, 3, which an earlier command kept" in caplog.text
    caplog.clear()
    assert save(tmp_path, steps=(6,), keep_max=2).steps() == [5, 6]
    assert not caplog.messages


def test_the_latest_step_is_the_one_that_is_restored(tmp_path, caplog):
    manager = CheckpointManager(str(tmp_path))
    assert manager.latest_step() is None
    save(tmp_path, steps=(1, 2, 3))
    for content, step in (
        ('model_checkpoint_path: "model.ckpt-2"\n', 2),
        ('model_checkpoint_path: "model.ckpt-7"\n', 3),
        ("garbage", 3),
    ):
        (tmp_path / "checkpoint").write_text(content)
        assert manager.latest_step() == restored_step(manager) == step
    caplog.clear()
    assert manager.latest_step() == 3
    assert not caplog.text  # only `restore` warns
    (tmp_path / "checkpoint").unlink()  # as if killed before it was written
    assert manager.latest_step() == restored_step(manager) == 3
    assert not caplog.text


def test_the_checkpoint_that_will_be_loaded_must_fit(tmp_path):
    manager = save(tmp_path)
    other = {"bert/one": tf.Variable(tf.zeros([5]))}
    manager.save(other, ResumePoint(3, 24, 7, 100))
    message = r"another model: .*model.ckpt-3 does not fit \(bert/one: "
    with pytest.raises(ValueError, match=f"^{tmp_path} .*{message}"):
        manager.check(variables())
    checkpoints.tf1.write_state(str(tmp_path), ["model.ckpt-2"])
    manager.check(variables())
    with pytest.raises(ValueError, match="model.ckpt-2 does not fit"):
        manager.check(other)


def test_a_folder_without_checkpoints_has_none_to_spare(tmp_path):
    manager = CheckpointManager(str(tmp_path))
    manager.keep_latest()
    manager.strip()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("keep_max", "saves", "text"),
    [
        (5, 3, "0.1 MB each, 3 at once at most, 0.3 MB"),
        (5, 90, "0.1 MB each, 6 at once at most, 0.6 MB"),
        (None, 0, "0.1 MB each, 6 at once at most, 0.6 MB"),
        (0, 90, "0.1 MB each, 90 at once at most, 9.0 MB"),
        (0, 0, "0.1 MB each, and all of them are kept"),
    ],
)
def test_the_size_on_disk_is_told(tmp_path, logged, keep_max, saves, text):
    manager = CheckpointManager(str(tmp_path), keep_max)
    manager.log_size({"a": tf.Variable(tf.zeros([25_000]))}, saves)
    assert text in logged.text


def test_too_little_space_is_told_before_training(
    tmp_path, caplog, monkeypatch
):
    manager = save(tmp_path, steps=(1, 2, 3))
    usage = shutil.disk_usage(tmp_path)._replace(free=250_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    a = {"a": tf.Variable(tf.zeros([25_000]))}
    manager.log_size(a, 5)  # two more
    assert "left" not in caplog.text
    manager.log_size(a, 90)
    assert "has 0.2 MB left, but the checkpoints need 0.3 MB" in caplog.text
