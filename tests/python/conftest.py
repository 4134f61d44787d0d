"""Folders as the original released them, and calls that train nothing."""

import pytest

import bert
from tests.support.model_folders import write_released
from tests.support.python_tables import QUICK
from training.runs import classifier


@pytest.fixture(scope="session")
def released(goldens, tmp_path_factory):
    """A model of one layer."""
    return write_released(goldens, tmp_path_factory.mktemp("released"))


@pytest.fixture(scope="session")
def three_layers(goldens, tmp_path_factory):
    """The golden model."""
    folder = tmp_path_factory.mktemp("three_layers")
    return write_released(goldens, folder, "bert_config.json")


@pytest.fixture(scope="session")
def golden_model(three_layers):
    return bert.load(three_layers)


@pytest.fixture
def seen(monkeypatch):
    """A run ends when its records are made; the options of each run."""
    seen = []

    def stop(options, inputs=None):
        opened = classifier.Run(options)
        seen.append(opened.options)
        opened.make_records()
        raise StopIteration

    monkeypatch.setattr(classifier, "run", stop)
    return seen


@pytest.fixture
def begun(released, seen):
    """Calls `bert.finetune`, whose run ends at once; returns its options."""

    def call(train, output_dir, **settings):
        with pytest.raises(StopIteration):
            bert.finetune(train, released, str(output_dir), **QUICK | settings)
        return seen.pop()

    return call
