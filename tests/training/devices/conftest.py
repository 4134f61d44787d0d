"""What the tests of devices are given."""

import dataclasses

import pytest
import tensorflow as tf

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


@pytest.fixture
def make_seen(monkeypatch):
    """TensorFlow sees these GPUs, whose details are made up."""

    def make(*found):
        names = [f"/GPU:{i}" for i in range(len(found))]
        details = {
            name: {"device_name": gpu.name}
            | ({"compute_capability": gpu.capability} if gpu.capability else {})
            for name, gpu in zip(names, found, strict=True)
        }
        config = tf.config
        monkeypatch.setattr(config, "get_visible_devices", lambda kind: names)
        monkeypatch.setattr(
            config.experimental, "get_device_details", details.get
        )

    return make
