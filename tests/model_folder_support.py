"""Folders of models: of the goldens, and of Hugging Face."""

import shutil

import numpy as np

from modeling import checkpoints
from tests import huggingface_support as theirs


def write_original(goldens, folder):
    """A folder as the original released them, of the golden model."""
    folder.mkdir(parents=True)
    trained = goldens / "model/trained/model.ckpt-60"
    for ending in ".index", ".data-00000-of-00001":
        shutil.copy(f"{trained}{ending}", folder / f"bert_model.ckpt{ending}")
    shutil.copy(goldens / "bert_config.json", folder)
    shutil.copy(goldens / "vocab.txt", folder)
    return folder


def write_huggingface(goldens, folder, architecture="BertModel", **config):
    """A folder of Hugging Face with random weights; returns the tensors."""
    tensors = theirs.tensors_of(architecture)
    theirs.write_folder(folder, tensors, architectures=[architecture], **config)
    shutil.copy(goldens / "vocab.txt", folder)
    return tensors


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
