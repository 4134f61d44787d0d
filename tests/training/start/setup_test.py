"""Which configurations are those of the same model."""

import dataclasses

import pytest

from modeling import BertConfig
from training.start import setup

RELEASED = BertConfig(
    vocab_size=9,
    hidden_act="GELU",
    extra={"directionality": "bidi", "pooler_type": "first_token_transform"},
)


@pytest.mark.parametrize(
    "changed",
    [
        {"extra": {}},
        {"hidden_act": "gelu"},
        {"initializer_range": 0.01},
        {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.2},
    ],
    ids=str,
)
def test_what_changes_no_trained_model_may_differ(tmp_path, changed):
    path = tmp_path / "bert_config.json"
    path.write_text(RELEASED.to_json_string())
    config = dataclasses.replace(RELEASED, **changed)
    setup.check_same_model(str(tmp_path), config)
    changes = {"hidden_act": "relu", "num_attention_heads": 6}
    other = dataclasses.replace(config, **changes)
    message = (
        "hidden_act gelu -> relu; num_attention_heads 12 -> 6. Give another "
        f"--output_dir, .*--bert_config_file={path}"
    )
    with pytest.raises(ValueError, match=message):
        setup.check_same_model(str(tmp_path), other)
