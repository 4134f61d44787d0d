import json

import pytest

from modeling import BertConfig

# What the multilingual and Chinese releases' bert_config.json have in addition.
EXTRA = {
    "directionality": "bidi",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}


def test_json_text_is_the_originals(goldens):
    config = BertConfig.from_json_file(str(goldens / "bert_config.json"))
    assert config.to_json_string() == (goldens / "bert_config.json").read_text()


def test_extra_keys_of_released_files_are_kept():
    plain = BertConfig(vocab_size=119547).to_dict()
    assert BertConfig.from_dict(plain | EXTRA).to_dict() == plain | EXTRA


def test_defaults_are_base():
    config = BertConfig(vocab_size=10)
    assert (config.hidden_size, config.num_hidden_layers) == (768, 12)
    assert config.type_vocab_size == 16  # the original's constructor
    in_order = (10, 768, 12, 12, 3072, "gelu", 0.1, 0.1, 512, 16, 0.02)
    assert BertConfig(*in_order) == config


@pytest.mark.parametrize(
    "ours", [{"left_to_right": True}, {"electra": True, "embedding_size": 128}]
)
def test_what_is_not_the_originals_survives_the_round_trip(ours):
    config = BertConfig(vocab_size=10, **ours)
    assert BertConfig.from_dict(json.loads(config.to_json_string())) == config


def test_the_embeddings_of_an_electra_have_their_own_width():
    config = BertConfig(vocab_size=10, electra=True, embedding_size=128)
    assert (config.embedding_width, config.encoder_name) == (128, "electra")
    plain = BertConfig(vocab_size=10, embedding_size=768)
    assert not {"electra", "embedding_size"} & plain.to_dict().keys()
    assert (plain.embedding_width, plain.encoder_name) == (768, "bert")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hiden_size": 3}, "unknown key 'hiden_size'.*'hidden_size'"),
        ({"hidden_size": 770}, "770 is not a multiple .* 12; take .* 768"),
        ({"hidden_act": "gelo"}, "hidden_act is 'gelo'; one of gelu, gelu_ex"),
        ({"vocab_size": 0}, "vocab_size is 0; .* number of at least 1"),
        ({"hidden_size": 7.5}, "hidden_size is 7.5; give a whole number"),
        ({"hidden_dropout_prob": 1.0}, "prob is 1.0; give a number .* below 1"),
        ({"hidden_dropout_prob": "0.1"}, "is '0.1'; give a number"),
        ({"initializer_range": -1}, "_range is -1; give a number of at"),
        ({"left_to_right": "false"}, "is 'false'; give true or false"),
        ({"electra": 1}, "electra is 1; give true or false"),
        ({"electra": True, "left_to_right": True}, "are both true; leave one"),
        ({"embedding_size": 128}, "is 128 .* leave embedding_size out, or add"),
        ({"embedding_size": 0, "electra": True}, "embedding_size is 0; give a"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        BertConfig.from_dict({"vocab_size": 10} | change)


def test_vocab_size_is_required():
    with pytest.raises(ValueError, match="has no vocab_size"):
        BertConfig.from_dict({"hidden_size": 768})


@pytest.mark.parametrize(
    ("text", "message"), [("{", "Expecting"), ("[1]", "no JSON object")]
)
def test_a_broken_file_is_named(tmp_path, text, message):
    path = tmp_path / "bert_config.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"bert_config.json .*{message}"):
        BertConfig.from_json_file(str(path))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent.json.*--bert_config"):
        BertConfig.from_json_file(str(tmp_path / "absent.json"))


def test_configurations_that_ship_are_the_released_sizes(pytestconfig):
    paths = sorted((pytestconfig.rootpath / "configs").glob("*.json"))
    configs = {p.stem: BertConfig.from_json_file(str(p)) for p in paths}
    # 24 small models, the 12-layer 768-wide of which is Base, and Large.
    uncased = [
        (c.num_hidden_layers, c.hidden_size, c.num_attention_heads)
        for name, c in configs.items()
        if name.startswith("uncased")
    ]
    small = {
        (layers, hidden, heads)
        for layers in (2, 4, 6, 8, 10, 12)
        for hidden, heads in ((128, 2), (256, 4), (512, 8), (768, 12))
    }
    assert set(uncased) == small | {(24, 1024, 16)}
    assert len(uncased) == 25
    # Clark et al., arXiv:2003.10555, table 6.
    electra = [
        (c.num_hidden_layers, c.hidden_size, c.num_attention_heads)
        + (c.embedding_width,)
        for name, c in configs.items()
        if name.startswith("electra")
    ]
    assert sorted(electra) == [
        (12, 256, 4, 128),
        (12, 768, 12, 768),
        (24, 1024, 16, 1024),
    ]
    for config in configs.values():
        assert config.intermediate_size == 4 * config.hidden_size
        assert config.max_position_embeddings == 512
        assert config.type_vocab_size == 2
