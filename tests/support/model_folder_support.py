"""Folders of models: of the goldens, and of Hugging Face."""

import dataclasses
import shutil

import numpy as np
import tensorflow as tf

from modeling import BertConfig, checkpoints, layers
from tests.support import huggingface_support as theirs
from tests.support.model_folders import change_json, write_released


def write_original(goldens, folder, config="bert_config.json"):
    """A folder as the original released them, of the golden model."""
    write_released(goldens, folder, config)
    return folder


def write_huggingface(goldens, folder, architecture="BertModel", **config):
    """A folder of Hugging Face with random weights; returns the tensors."""
    tensors = theirs.tensors_of(architecture)
    theirs.write_folder(folder, tensors, architectures=[architecture], **config)
    shutil.copy(goldens / "vocab.txt", folder)
    return tensors


def variables_of(model):
    """Name in a checkpoint -> variable, of a layer or an objective."""
    return checkpoints.variables_by_name(getattr(model, "layers", [model]))


def shapes_drawn(monkeypatch):
    """A list, to which each random weight adds its shape when it is drawn."""
    shapes, initializer = [], layers.initializer

    def recorded(stddev):
        draw = initializer(stddev)

        def first(shape, dtype=None):
            if tf.executing_eagerly():  # in a graph only shapes are of use
                shapes.append(shape)
            return draw(shape, dtype)

        return first

    monkeypatch.setattr(layers, "initializer", recorded)
    return shapes


def write_weights(path, model):
    """Writes the checkpoint of a layer or an objective; returns its prefix."""
    values = {name: v.numpy() for name, v in variables_of(model).items()}
    checkpoints.write(str(path), values)
    return str(path)


def load_weights(path, model):
    """Reads a checkpoint into a layer or an objective; returns the report."""
    return checkpoints.init_from_checkpoint(str(path), variables_of(model))


def add_to_weight(folder, name):
    """Adds 1 to a variable in the checkpoint of a folder."""
    saved = checkpoints.open_checkpoint(str(folder))
    values = {name: saved.read(name) for name in saved.shapes}
    checkpoints.write(saved.prefix, values | {name: values[name] + 1})


def change_description(folder, **changes):
    """Changes what task.json of a finished run says; returns what it said."""
    return change_json(folder / "task.json", **changes)


def write_with(goldens, folder, make_model, **sizes):
    """A folder as the original's programs leave them, with random weights."""
    config = BertConfig.from_json_file(str(goldens / "first_layer.json"))
    config = dataclasses.replace(config, **sizes)
    folder.mkdir(parents=True)
    write_weights(folder / "bert_model.ckpt", make_model(config))
    (folder / "bert_config.json").write_text(config.to_json_string())
    shutil.copy(goldens / "vocab.txt", folder)
    return str(folder)


def assert_has_weights(loaded, path):
    """All variables of the model are those of a checkpoint, bit for bit."""
    checkpoint = checkpoints.open_checkpoint(str(path))
    variables = variables_of(loaded.model)
    assert not loaded.report.missing
    assert loaded.report.loaded == tuple(variables)
    for name, variable in variables.items():
        np.testing.assert_array_equal(variable, checkpoint.read(name))
