import dataclasses
import re
import shutil
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from modeling import PretrainingModel, checkpoints
from tests.support.model_folder_support import load_weights, variables_of


@pytest.fixture
def init(goldens):
    return str(goldens / "model/init/bert_model.ckpt")


def test_names_and_shapes_are_the_originals(config, init):
    # The parameter tree is a golden too: the original wrote this file.
    original = {
        name: shape
        for name, shape in checkpoints.Checkpoint(init).shapes.items()
        if name != "global_step" and not name.endswith(("adam_m", "adam_v"))
    }
    variables = variables_of(PretrainingModel(config))
    assert {n: tuple(v.shape) for n, v in variables.items()} == original


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/bert_model.ckpt",
        "/bert_model.ckpt.index",
        "/bert_model.ckpt.meta",
        "/bert_model.ckpt.data-00001-of-00002",
    ],
)
def test_a_checkpoint_is_found_by_folder_prefix_or_file(goldens, path):
    found = checkpoints.open_checkpoint(str(goldens / "model/init") + path)
    assert found.prefix.endswith("init/bert_model.ckpt")


@pytest.mark.parametrize("name", ["run*", "run?", "a, b"])
def test_a_checkpoint_s_folder_is_no_glob(goldens, tmp_path, name):
    for folder in (tmp_path / name, tmp_path / "run1"):
        shutil.copytree(goldens / "model/init", folder)
        (folder / "checkpoint").unlink()
    found = checkpoints.open_checkpoint(str(tmp_path / name))
    assert found.prefix == str(tmp_path / name / "bert_model.ckpt")


@pytest.mark.parametrize("name", ["run[1]", "[a-c]", r"a\b"])
def test_a_path_that_tensorflow_cannot_read_is_refused(goldens, tmp_path, name):
    # TensorFlow would write it, and call it damaged ever after.
    folder = tmp_path / name
    shutil.copytree(goldens / "model/init", folder)
    message = re.escape(f"{folder}/bert_model.ckpt: TensorFlow reads no check")
    with pytest.raises(ValueError, match=message):
        checkpoints.open_checkpoint(str(folder))
    with pytest.raises(ValueError, match=message):
        checkpoints.write(f"{folder}/bert_model.ckpt", {})


def test_a_partial_encoder_is_refused_and_nothing_is_assigned(config, init):
    model = PretrainingModel(dataclasses.replace(config, num_hidden_layers=4))
    before = model.bert.get_embedding_table().numpy()
    message = "layer_3/.*missing[^$]*--bert_config_file"
    with pytest.raises(ValueError, match=message):
        load_weights(init, model)
    np.testing.assert_array_equal(model.bert.get_embedding_table(), before)


def test_a_missing_checkpoint_says_what_to_give():
    path = "google-bert/bert-base-chinese"
    message = f"{path}: .*give its prefix, such as .*nothing is downloaded: unp"
    with pytest.raises(FileNotFoundError, match=message):
        checkpoints.open_checkpoint(path)


@pytest.mark.parametrize(
    ("ending", "damage"),
    [
        ("data-00000-of-00001", lambda x: x[:9] + bytes([x[9] ^ 1]) + x[10:]),
        ("data-00000-of-00001", lambda x: x[:400_000]),
        ("index", lambda x: b"nonsense"),
    ],
    ids=["flipped bit", "cut", "index"],
)
def test_damaged_files_are_refused(config, goldens, tmp_path, ending, damage):
    folder = shutil.copytree(goldens / "model/init", tmp_path / "bad")
    path = folder / f"bert_model.ckpt.{ending}"
    path.write_bytes(damage(path.read_bytes()))
    message = "bert_model.ckpt: .*damaged or incomplete"
    with pytest.raises(ValueError, match=message):
        load_weights(folder / "bert_model.ckpt", PretrainingModel(config))


def test_a_full_disk_keeps_the_checkpoint_that_was_there(tmp_path, monkeypatch):
    prefix = str(tmp_path / "model.ckpt-7")
    checkpoints.write(prefix, {"x": np.float32(1)})
    full = tf.errors.ResourceExhaustedError(None, None, "No space left")
    monkeypatch.setattr(tf.raw_ops, "SaveV2", mock.Mock(side_effect=full))
    with pytest.raises(OSError, match="No space left.*free space"):
        checkpoints.write(prefix, {"x": np.float32(2)})
    assert checkpoints.Checkpoint(prefix).read("x") == 1
    assert not list(tmp_path.glob("*incomplete*"))
