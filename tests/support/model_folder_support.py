"""Folders of models: of the goldens, and of Hugging Face."""

import dataclasses
import shutil

import numpy as np

from modeling import BertConfig, checkpoints
from tests.support import huggingface_support as theirs
from tests.support.model_folders import write_released


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


def write_with(goldens, folder, make_model, **sizes):
    """A folder as the original's programs leave them, with random weights."""
    config = BertConfig.from_json_file(str(goldens / "first_layer.json"))
    config = dataclasses.replace(config, **sizes)
    folder.mkdir(parents=True)
    weights = checkpoints.variables_by_name(make_model(config).layers)
    checkpoints.write(
        str(folder / "bert_model.ckpt"),
        {name: v.numpy() for name, v in weights.items()},
    )
    (folder / "bert_config.json").write_text(config.to_json_string())
    shutil.copy(goldens / "vocab.txt", folder)
    return str(folder)


def assert_has_weights(loaded, path):
    """All variables of the model are those of a checkpoint, bit for bit."""
    checkpoint = checkpoints.open_checkpoint(str(path))
    layers = (loaded.model,)
    if loaded.kind != "encoder":
        layers = loaded.model.layers
    variables = checkpoints.variables_by_name(layers)
    assert not loaded.report.missing
    assert loaded.report.loaded == tuple(variables)
    for name, variable in variables.items():
        np.testing.assert_array_equal(variable, checkpoint.read(name))
