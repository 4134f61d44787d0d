"""What several tests of the model need."""

import pytest

from modeling import BertConfig


@pytest.fixture(scope="session")
def config(goldens):
    """The configuration of the golden model, which has three layers."""
    return BertConfig.from_json_file(str(goldens / "bert_config.json"))
