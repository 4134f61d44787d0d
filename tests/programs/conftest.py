"""What the tests of ELECTRA are given."""

import pytest

from tests.support import electra_support
from tests.support.model_folders import write_released


@pytest.fixture(scope="module")
def released(goldens, tmp_path_factory):
    """An ELECTRA as pretraining leaves it: the folder, its variables."""
    folder = tmp_path_factory.mktemp("electra")
    return electra_support.write_electra_run(goldens, folder)


@pytest.fixture(scope="module")
def bert_folder(goldens, tmp_path_factory):
    """A BERT of the same size, without its configuration."""
    return write_released(goldens, tmp_path_factory.mktemp("bert"))
