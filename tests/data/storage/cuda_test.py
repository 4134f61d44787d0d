"""NVIDIA's packages of pip are found; a made-up tree takes their place."""

import importlib.machinery
import os
from unittest import mock

import pytest

from data.storage import cuda


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder of packages with TensorFlow, and what has been loaded."""
    spec = importlib.machinery.ModuleSpec(
        "tensorflow", None, origin=str(tmp_path / "tensorflow/__init__.py")
    )
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setenv("PATH", "/usr/local/cuda-13/bin")
    loaded = []
    monkeypatch.setattr(cuda.ctypes, "CDLL", loaded.append)
    return tmp_path, loaded


def test_the_tools_of_the_packages_come_first_and_cusolver_is_loaded(packages):
    folder, loaded = packages
    tools = folder / "nvidia/cuda_nvcc/bin"
    tools.mkdir(parents=True)
    for _ in range(2):
        cuda.find()
        assert os.environ["PATH"] == f"{tools}:/usr/local/cuda-13/bin"
    assert {*loaded} == {f"{folder}/nvidia/cusolver/lib/libcusolver.so.11"}


@pytest.mark.parametrize("has_tensorflow", [True, False])
def test_without_the_packages_nothing_changes(
    packages, monkeypatch, has_tensorflow
):
    missing = OSError("cannot open shared object file")
    monkeypatch.setattr(cuda.ctypes, "CDLL", mock.Mock(side_effect=missing))
    if not has_tensorflow:
        monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: None)
    cuda.find()
    assert os.environ["PATH"] == "/usr/local/cuda-13/bin"
