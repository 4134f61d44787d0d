"""Weights in and out, and what becomes of bad files."""

import re
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import modeling
from modeling import checkpoints


@pytest.fixture
def init(goldens):
    return str(goldens / "model/init/bert_model.ckpt")


def variables_of(config):
    model = modeling.PretrainingModel(config)
    return checkpoints.variables_by_name(model.layers)


def test_names_and_shapes_are_the_originals(config, init):
    # The parameter tree is a golden too: the original wrote this file.
    original = {
        name: shape
        for name, shape in checkpoints.Checkpoint(init).shapes.items()
        if name != "global_step" and not name.endswith(("adam_m", "adam_v"))
    }
    ours = {n: tuple(v.shape) for n, v in variables_of(config).items()}
    assert ours == original


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


def test_loading_assigns_every_weight_and_reports(config, init):
    variables = variables_of(config)
    report = checkpoints.init_from_checkpoint(init, variables)
    assert len(report.loaded) == len(variables) == 62
    assert not report.missing
    assert not report.unused
    reader = tf.train.load_checkpoint(init)
    for name, variable in variables.items():
        np.testing.assert_array_equal(variable, reader.get_tensor(name))
    assert "62 variables loaded, 0 missing, 0 unused" in str(report)


def test_missing_heads_keep_their_values_and_are_reported(
    config, init, tmp_path
):
    source = checkpoints.Checkpoint(init)
    encoder = {
        n: source.read(n) for n in source.shapes if n.startswith("bert/")
    }
    encoder["output_weights"] = np.zeros([2, 32], np.float32)
    checkpoints.write(str(tmp_path / "encoder"), encoder)
    keras.utils.set_random_seed(1)
    variables = variables_of(config)
    head = variables["cls/seq_relationship/output_weights"].numpy()
    report = checkpoints.init_from_checkpoint(
        str(tmp_path / "encoder"), variables
    )
    assert len(report.missing) == 7
    assert all(name.startswith("cls/") for name in report.missing)
    assert report.unused == ("output_weights",)
    assert "  unused: output_weights" in str(report)
    np.testing.assert_array_equal(
        variables["cls/seq_relationship/output_weights"], head
    )


def test_a_partial_encoder_is_refused_and_nothing_is_assigned(config, init):
    deeper = modeling.BertConfig.from_dict(
        config.to_dict() | {"num_hidden_layers": 4}
    )
    variables = variables_of(deeper)
    before = variables["bert/embeddings/word_embeddings"].numpy()
    with pytest.raises(
        ValueError, match="layer_3/.*missing[^$]*--bert_config_file"
    ):
        checkpoints.init_from_checkpoint(init, variables)
    np.testing.assert_array_equal(
        variables["bert/embeddings/word_embeddings"], before
    )


def test_another_width_is_refused_with_both_shapes(config, init):
    other = modeling.BertConfig.from_dict(
        config.to_dict() | {"vocab_size": 1100}
    )
    with pytest.raises(
        ValueError,
        match=r"word_embeddings: \(1200, 32\) in the checkpoint, "
        r"\(1100, 32\) in the model",
    ):
        checkpoints.init_from_checkpoint(init, variables_of(other))


def test_a_missing_checkpoint_says_what_to_give(tmp_path):
    with pytest.raises(FileNotFoundError, match="give its prefix, such as"):
        checkpoints.Checkpoint(str(tmp_path / "bert_model.ckpt"))
    with pytest.raises(FileNotFoundError, match="holds no model, but nothing"):
        checkpoints.open_checkpoint(str(tmp_path))


def copy(init, target, damage=None, cut=None):
    for ending in (".index", ".data-00000-of-00001"):
        with open(init + ending, "rb") as file:
            content = bytearray(file.read())
        if ending.startswith(".data"):
            if damage is not None:
                content[damage] ^= 1
            content = content[:cut]
        target.with_name(target.name + ending).write_bytes(content)
    return str(target)


@pytest.mark.parametrize("change", [{"damage": 100_000}, {"cut": 400_000}])
def test_damaged_bytes_are_refused(config, init, tmp_path, change):
    path = copy(init, tmp_path / "bad.ckpt", **change)
    with pytest.raises(ValueError, match="bad.ckpt: .*damaged or incomplete"):
        checkpoints.init_from_checkpoint(path, variables_of(config))


def test_a_damaged_index_is_refused(init, tmp_path):
    path = copy(init, tmp_path / "bad.ckpt")
    (tmp_path / "bad.ckpt.index").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="bad.ckpt: .*damaged or incomplete"):
        checkpoints.Checkpoint(path)


def test_what_was_written_is_read_by_tensorflow_itself(tmp_path):
    values = {"a/b": np.arange(6.0).reshape(2, 3), "global_step": np.int64(7)}
    prefix = str(tmp_path / "model.ckpt-7")
    checkpoints.write(prefix, values)
    reader = tf.train.load_checkpoint(prefix)
    for name, value in values.items():
        np.testing.assert_array_equal(reader.get_tensor(name), value)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "model.ckpt-7.data-00000-of-00001",
        "model.ckpt-7.index",
    ]


def test_a_full_disk_keeps_the_checkpoint_that_was_there(tmp_path, monkeypatch):
    prefix = str(tmp_path / "model.ckpt-7")
    checkpoints.write(prefix, {"x": np.float32(1)})

    def full(**_):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left")

    monkeypatch.setattr(tf.raw_ops, "SaveV2", full)
    with pytest.raises(OSError, match="No space left.*free space"):
        checkpoints.write(prefix, {"x": np.float32(2)})
    assert checkpoints.Checkpoint(prefix).read("x") == 1
    assert not list(tmp_path.glob("*incomplete*"))


def test_strip_keeps_the_weights_alone(goldens, tmp_path):
    target = str(tmp_path / "bert_model.ckpt")
    full = checkpoints.open_checkpoint(str(goldens / "model/trained"))
    checkpoints.write(target, full.weights())
    slim = checkpoints.Checkpoint(target)
    assert len(slim.shapes) == 62
    for name in slim.shapes:
        np.testing.assert_array_equal(slim.read(name), full.read(name))
    data = ".data-00000-of-00001"
    sizes = [tf.io.gfile.stat(c.prefix + data).length for c in (slim, full)]
    assert sizes[0] == pytest.approx(sizes[1] / 3, rel=0.01)


@pytest.mark.parametrize(
    "path", ["bert-base-uncased", "google-bert/bert-base-chinese", "runs/model"]
)
def test_a_missing_checkpoint_is_answered_with_where_to_get_it(path):
    message = (
        f"{path}: no checkpoint there .*give its prefix, .*Names of models on "
        "a hub, .* nothing is downloaded: unpack a zip .* give the folder.$"
    )
    with pytest.raises(FileNotFoundError, match=message):
        checkpoints.open_checkpoint(path)
