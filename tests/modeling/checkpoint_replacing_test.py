"""A checkpoint written over another one, and stopped at every instant."""

import functools
import itertools
import os

import numpy as np
import pytest
import tensorflow as tf

from modeling import checkpoints
from modeling.checkpoints import tf1

NAME = "bert_model.ckpt"
FILES = [f"{NAME}.data-00000-of-00001", f"{NAME}.index"]
# What changes names, or removes them.
CALLS = ("rename", "remove", "rmtree")


def tensors(value):
    return {
        "bert/one": np.full([3], value, np.float32),
        "bert/two": np.full([2, 2], value, np.float32),
        "global_step": np.int64(value),
    }


def write(folder, value):
    checkpoints.write(os.path.join(folder, NAME), tensors(value))


def value_of(folder):
    """Reads all of a checkpoint with TensorFlow alone: of one value."""
    reader = tf.compat.v1.train.NewCheckpointReader(os.path.join(folder, NAME))
    names = reader.get_variable_to_shape_map()
    assert names.keys() == tensors(0).keys()
    values = {float(x) for name in names for x in reader.get_tensor(name).flat}
    (value,) = values
    return value


def copy(source, target):
    tf.io.gfile.makedirs(target)
    for folder, _, names in tf.io.gfile.walk(source):
        place = target + folder.removeprefix(source)
        tf.io.gfile.makedirs(place)
        for name in names:
            tf.io.gfile.copy(f"{folder}/{name}", f"{place}/{name}", True)


@pytest.fixture(params=["local", "copying", "ram"])
def root(request, tmp_path, monkeypatch):
    """A folder; in two of them a renamed file is copied, then removed."""
    if request.param != "local":
        remove = tf.io.gfile.remove

        def rename(source, target, overwrite=False):
            # At once, as `gs://` does; `ram://` appends to what is there.
            if tf.io.gfile.exists(target):
                assert overwrite
                remove(target)
            tf.io.gfile.copy(source, target)
            tf.io.gfile.remove(source)  # an instant of its own

        monkeypatch.setattr(tf.io.gfile, "rename", rename)
    if request.param == "ram":
        return f"ram://{tmp_path.name}"
    return str(tmp_path)


def watch(monkeypatch, act):
    """Calls `act` before and after each call that changes names."""

    def watched(call, *args, **kwargs):
        act()
        result = call(*args, **kwargs)
        act()
        return result

    for name in CALLS:
        call = functools.partial(watched, getattr(tf.io.gfile, name))
        monkeypatch.setattr(tf.io.gfile, name, call)


def instants_of(folder, may_be, value, patch, numbers):
    """Writes a value over another one, and copies the folder at each instant.

    Returns:
      Of each copy its folder, and the values that may be read in it.
    """
    found = []

    def look():
        place = f"{os.path.dirname(folder)}/{next(numbers):04d}"
        copy(folder, place)
        assert value_of(place) in {*may_be, value}
        found.append((place, {value_of(place)}))

    watch(patch, look)
    write(folder, value)
    return found


def test_it_is_readable_at_each_instant(root, monkeypatch):
    """Also when a run was killed at one, and the next one writes again."""
    write(f"{root}/0000", 0)
    numbers = itertools.count(1)
    # Folders as killed runs leave them.
    left = [(f"{root}/0000", {0})]
    for value in (1, 2):
        found = []
        for folder, may_be in left:
            with monkeypatch.context() as patch:
                found += instants_of(folder, may_be, value, patch, numbers)
            assert value_of(folder) == value
            names = tf.io.gfile.listdir(folder)
            # Only what the killed run was staging is there, too.
            assert sorted(n for n in names if ".incomplete-" not in n) == FILES
        left = found
        assert len(left) > 4


def test_an_error_at_any_change_leaves_a_whole_one(root, monkeypatch):
    for at in itertools.count():
        folder = f"{root}/{at:04d}"
        write(folder, 0)
        left = at

        def fail():
            nonlocal left
            left -= 1
            if left == -1:
                raise tf.errors.ResourceExhaustedError(None, None, "disk full")

        try:
            with monkeypatch.context() as patch:
                watch(patch, fail)
                write(folder, 1)
        except OSError as error:
            assert "disk full. Earlier checkpoints are intact" in str(error)
            assert value_of(folder) in (0, 1)
        except tf.errors.ResourceExhaustedError:
            assert value_of(folder) == 1  # while it removed what it staged
        else:
            break
    assert at > 4


def test_one_tensor_alone_may_be_written_again(tmp_path):
    prefix = str(tmp_path / NAME)
    for value in (1, 2):
        checkpoints.write(prefix, {"x": np.float32(value)})
        assert checkpoints.Checkpoint(prefix).shapes == {"x": ()}
        assert checkpoints.Checkpoint(prefix).read("x") == value


def test_one_of_many_files_is_replaced(tmp_path):
    tf1._save_in_two(str(tmp_path / NAME), tensors(1))
    assert len(os.listdir(tmp_path)) == 3
    assert value_of(tmp_path) == 1
    write(str(tmp_path), 2)
    assert value_of(tmp_path) == 2
    assert sorted(os.listdir(tmp_path)) == FILES


def test_a_damaged_one_is_replaced(tmp_path):
    for content in (b"", b"\0", b"\xff" * 100):
        (tmp_path / f"{NAME}.index").write_bytes(content)
        write(str(tmp_path), 2)
        assert value_of(tmp_path) == 2
        assert sorted(os.listdir(tmp_path)) == FILES


def test_what_is_staged_has_a_name_that_cannot_be_guessed(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "kept").touch()
    folder = tmp_path / "out"
    folder.mkdir()
    for name in (NAME, "checkpoint"):
        link = folder / f"{name}.incomplete-{os.getpid()}"
        link.symlink_to(target if name == NAME else target / "kept")
    write(str(folder), 1)
    checkpoints.tf1.write_state(str(folder), [NAME])
    assert value_of(folder) == 1
    assert os.listdir(target) == ["kept"]
    assert (target / "kept").read_bytes() == b""
