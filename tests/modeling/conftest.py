"""What several tests of the model need."""

import pytest

from modeling import BertConfig
from tests.support.model_folder_support import write_original


@pytest.fixture(scope="session")
def config(goldens):
    """The configuration of the golden model, which has three layers."""
    return BertConfig.from_json_file(str(goldens / "bert_config.json"))


@pytest.fixture
def original(goldens, tmp_path):
    """A folder as the original released them, of the golden model."""
    return write_original(goldens, tmp_path / "uncased")
