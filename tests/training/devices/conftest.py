"""What the tests of devices are given."""

import dataclasses

import pytest

from modeling import BertConfig
from training.devices import strategy


@pytest.fixture
def config(goldens):
    """Dropout, whose random numbers are a step's riskiest part; one block."""
    config = BertConfig.from_json_file(str(goldens / "first_layer.json"))
    return dataclasses.replace(
        config, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    )


@pytest.fixture
def no_strategy_yet():
    """A strategy is made anew; so it is afterwards."""
    strategy.create_strategy.cache_clear()
    yield
    strategy.create_strategy.cache_clear()
