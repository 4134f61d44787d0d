import json
import struct
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
import safetensors
import tensorflow as tf
from safetensors.numpy import save_file

from modeling import (
    BertConfig,
    BertModel,
    PretrainingModel,
    SpanModel,
    TaskModel,
    checkpoints,
)
from modeling.checkpoints import huggingface
from modeling.config import from_huggingface, to_huggingface
from tests.support import huggingface_support as theirs
from tests.support import rounding
from tests.support.model_folder_support import load_weights


def batch_of(choices=1):
    rng = np.random.default_rng(1)
    shape = (2, choices, 9)
    mask = np.arange(9) < rng.integers(3, 9, shape[:2])[..., None]
    batch = {
        "input_ids": rng.integers(5, theirs.V, shape),
        "input_mask": mask,
        "segment_ids": rng.integers(0, 2, shape),
    }
    return {k: v.reshape(2, -1).astype(np.int32) for k, v in batch.items()}


def values_of(path):
    """All that a checkpoint has, by our names."""
    checkpoint = checkpoints.open_checkpoint(str(path))
    values = {name: checkpoint.read(name) for name in checkpoint.shapes}
    assert {n: x.shape for n, x in values.items()} == checkpoint.shapes
    return values


def assert_same(got, want):
    assert got.keys() == want.keys()
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value, name)


def config_of(folder):
    return BertConfig.from_json_file(f"{folder}/config.json")


def both(architecture, model_of, folder):
    """Our logits, and the encoder's outputs by their arithmetic."""
    tensors = theirs.tensors_of(architecture)
    path = theirs.write_folder(folder, tensors, architectures=[architecture])
    model = model_of(config_of(path))
    report = load_weights(path, model)
    assert not report.unused
    assert all(name.startswith("bert/pooler/") for name in report.missing)
    batch = batch_of(3 if architecture == "BertForMultipleChoice" else 1)
    ids, mask, segments = (x.reshape(-1, 9) for x in batch.values())
    encoded = theirs.encode(tensors, ids, mask, segments)
    batch["masked_lm_positions"] = np.tile(np.arange(9, dtype=np.int32), (2, 1))
    batch = {k: tf.constant(v) for k, v in batch.items()}
    return model, batch, tensors, encoded


def assert_close(ours, expected):
    # float32 against float64; a wrong transpose is off by more than that.
    bound = rounding.EQUAL * max(1, rounding.root_mean_square(expected))
    np.testing.assert_allclose(ours, expected, rtol=0, atol=bound)
    assert np.abs(expected).max() > 0.1


def test_the_pretraining_heads_give_their_numbers(tmp_path):
    model, batch, tensors, (sequence, pooled) = both(
        "BertForPreTraining", PretrainingModel, tmp_path
    )
    masked_lm, next_sentence = model.logits(batch)
    x = theirs.gelu(
        theirs.linear(tensors, "cls.predictions.transform.dense", sequence)
    )
    x = theirs.layer_norm(tensors, "cls.predictions.transform.LayerNorm", x)
    table = tensors["bert.embeddings.word_embeddings.weight"]
    expected = x @ table.T + tensors["cls.predictions.bias"]
    assert_close(masked_lm, expected.reshape(-1, theirs.V))
    assert_close(
        next_sentence, theirs.linear(tensors, "cls.seq_relationship", pooled)
    )


@pytest.mark.parametrize(
    ("architecture", "kind", "shape"),
    [
        ("BertForSequenceClassification", "classification", (2, 3)),
        ("BertForTokenClassification", "tagging", (2, 9, 3)),
        ("BertForMultipleChoice", "choice", (2, 3)),
        ("BertForQuestionAnswering", "span", (2, 9, 2)),
    ],
)
def test_other_heads_give_their_numbers(tmp_path, architecture, kind, shape):
    def model_of(config):
        if kind == "span":
            return SpanModel(config)
        return TaskModel(config, kind, 3)

    model, batch, tensors, encoded = both(architecture, model_of, tmp_path)
    sequence, pooled = encoded
    vectors = sequence if pooled is None else pooled
    name = "qa_outputs" if kind == "span" else "classifier"
    expected = theirs.linear(tensors, name, vectors)
    assert_close(model.logits(batch), expected.reshape(shape))


@pytest.mark.parametrize(
    "architecture", ["BertModel", *theirs.HEADS_OF], ids=str
)
def test_names_and_values_come_back_bit_for_bit(tmp_path, architecture):
    tensors = theirs.tensors_of(architecture)
    back = huggingface.to_tensors(
        values_of(theirs.write_folder(tmp_path, tensors)),
        is_encoder_alone=architecture == "BertModel",
    )
    assert_same(back, tensors)


def test_old_names_are_the_same_tensors(tmp_path):
    tensors = theirs.tensors_of()

    def old_name(name):
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        return name.replace("LayerNorm.bias", "LayerNorm.beta")

    old = {old_name(name): value for name, value in tensors.items()}
    assert not old.keys() >= tensors.keys()
    # A buffer that old versions saved.
    old["embeddings.position_ids"] = np.arange(theirs.POSITIONS)[np.newaxis]
    new_path = theirs.write_folder(tmp_path / "new", tensors)
    old_path = theirs.write_folder(tmp_path / "old", old)
    assert_same(values_of(old_path), values_of(new_path))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_read_as_float32(tmp_path, dtype):
    tensors = {k: v.astype(dtype) for k, v in theirs.tensors_of().items()}
    path = theirs.write_folder(tmp_path, tensors)
    value = values_of(path)["bert/pooler/dense/kernel"]
    assert value.dtype == np.float32
    expected = tensors["pooler.dense.weight"].astype(np.float32).T
    np.testing.assert_array_equal(value, expected)


def refuse_the_values(folder, monkeypatch):
    """A tensor whose bytes cannot be read is reported with its shard."""
    safe_open = safetensors.safe_open

    def damaged(path, framework):
        file = mock.Mock(wraps=safe_open(path, framework))
        file.get_tensor.side_effect = safetensors.SafetensorError("broken")
        return file

    monkeypatch.setattr(safetensors, "safe_open", damaged)
    checkpoint = checkpoints.open_checkpoint(folder)
    paths = set()
    for name in checkpoint.shapes:
        with pytest.raises(ValueError, match="damaged .*broken") as error:
            checkpoint.read(name)
        paths.add(str(error.value).split(": this file")[0])
    assert sorted(paths) == [
        f"{folder}/model-0000{i}-of-00002.safetensors" for i in (1, 2)
    ]


def test_shards_are_one_checkpoint(tmp_path, monkeypatch):
    tensors = theirs.tensors_of()
    whole = theirs.write_folder(tmp_path / "whole", tensors)
    folder = tmp_path / "shards"
    folder.mkdir()
    weight_map = {}
    for number in range(2):
        name = f"model-0000{number + 1}-of-00002.safetensors"
        part = dict(list(tensors.items())[number::2])
        save_file(part, folder / name)
        weight_map |= dict.fromkeys(part, name)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    assert_same(values_of(folder), values_of(whole))
    refuse_the_values(str(folder), monkeypatch)
    (folder / "model-00002-of-00002.safetensors").unlink()
    message = "model-00002-of-00002.*copy all shards"
    with pytest.raises(FileNotFoundError, match=message):
        checkpoints.open_checkpoint(str(folder))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"weights": 1}, "no weight"),
        ({"weight_map": []}, "weight_map"),
        ({"weight_map": {"a": ["b"]}}, "weight_map"),
    ],
)
def test_an_index_that_names_no_files_is_damaged(tmp_path, content, message):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"is damaged.*{message}"):
        checkpoints.open_checkpoint(str(tmp_path))


def test_a_decoder_that_is_the_table_is_not_a_second_one(tmp_path):
    tensors = theirs.tensors_of("BertForPreTraining")
    bias = tensors.pop("cls.predictions.bias")
    tensors["cls.predictions.decoder.bias"] = bias
    table = tensors["bert.embeddings.word_embeddings.weight"]
    tensors["cls.predictions.decoder.weight"] = table.copy()
    path = theirs.write_folder(tmp_path, tensors)
    model = PretrainingModel(config_of(path))
    report = load_weights(path, model)
    assert not report.missing
    assert not report.unused
    np.testing.assert_array_equal(model.cls.predictions.output_bias, bias)


def test_a_decoder_of_its_own_is_refused(tmp_path):
    tensors = theirs.tensors_of("BertForPreTraining")
    tensors["cls.predictions.decoder.weight"] = np.zeros(
        [theirs.V, theirs.H], np.float32
    )
    path = theirs.write_folder(tmp_path, tensors)
    with pytest.raises(ValueError, match="decoder.weight is not.*tied"):
        checkpoints.open_checkpoint(path)


def test_missing_heads_keep_their_values_and_are_told(tmp_path):
    tensors = theirs.tensors_of("BertForQuestionAnswering")
    tensors["lora.a"] = np.zeros([2], np.float32)
    path = theirs.write_folder(tmp_path, tensors)
    model = TaskModel(config_of(path), "classification", 2)
    head = model.head.output_weights.numpy()
    report = load_weights(path, model)
    np.testing.assert_array_equal(model.head.output_weights, head)
    assert report.missing == (
        "bert/pooler/dense/kernel",
        "bert/pooler/dense/bias",
        "output_weights",
        "output_bias",
    )
    assert report.unused == (
        "cls/squad/output_bias",
        "cls/squad/output_weights",
        "lora.a",
    )
    assert "  unused: lora.a" in str(report)


def test_pickled_weights_are_refused_with_advice(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(theirs.CONFIG))
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    message = "run any code[^$]*save_pretrained"
    with pytest.raises(FileNotFoundError, match=message):
        checkpoints.open_checkpoint(str(tmp_path))


@pytest.mark.parametrize("kept", [0, 40, -4])
def test_a_file_cut_short_is_refused(tmp_path, kept):
    path = theirs.write_folder(tmp_path, theirs.tensors_of())
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    message = "model.safetensors: .*damaged[^$]*git lfs pull"
    with pytest.raises(ValueError, match=message):
        checkpoints.open_checkpoint(path)


def test_quantized_tensors_are_refused(tmp_path):
    header = json.dumps(
        {"x": {"dtype": "I8", "shape": [2], "data_offsets": [0, 2]}}
    ).encode()
    (tmp_path / "model.safetensors").write_bytes(
        struct.pack("<Q", len(header)) + header + b"ab"
    )
    with pytest.raises(ValueError, match="x holds I8 numbers.*F32, F16, BF16"):
        checkpoints.open_checkpoint(str(tmp_path))


def test_weights_without_counterpart_are_refused():
    with pytest.raises(ValueError, match="mixing/weights: Hugging Face's BERT"):
        huggingface.to_tensors(
            {"mixing/weights": np.zeros(2)}, is_encoder_alone=False
        )


def test_their_gelu_is_our_exact_one(tmp_path):
    assert config_of(theirs.write_folder(tmp_path, {})) == BertConfig(
        vocab_size=theirs.V,
        hidden_size=theirs.H,
        num_hidden_layers=theirs.LAYERS,
        num_attention_heads=theirs.HEADS,
        intermediate_size=theirs.FF,
        hidden_act="gelu_exact",
        max_position_embeddings=theirs.POSITIONS,
        type_vocab_size=2,
    )


@pytest.mark.parametrize(
    ("name", "ours"),
    [("gelu_new", "gelu"), ("gelu_pytorch_tanh", "gelu"), ("relu", "relu")],
)
def test_their_activations_have_names_of_ours(name, ours):
    values = theirs.CONFIG | {"hidden_act": name}
    assert from_huggingface(values)["hidden_act"] == ours


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_exact", "linear"])
def test_a_configuration_comes_back(goldens, hidden_act):
    values = json.loads((goldens / "bert_config.json").read_text())
    values["hidden_act"] = hidden_act
    assert from_huggingface(to_huggingface(values)) == values


def test_missing_keys_have_their_defaults():
    values = from_huggingface({"model_type": "bert"})
    assert values["type_vocab_size"] == 2  # not 16, as in bert_config.json
    assert values["vocab_size"] == 30522


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "roberta"}, "'roberta', another architecture"),
        ({"model_type": None}, "None, another architecture"),
        ({"is_decoder": True}, "is_decoder is True, .* for False only"),
        ({"position_embedding_type": "relative_key"}, "'absolute' only"),
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps is 1e-05"),
        ({"hidden_act": "silu"}, "'silu'; .* gelu, gelu_new"),
    ],
)
def test_models_with_other_numbers_are_refused(tmp_path, change, message):
    path = theirs.write_folder(tmp_path, {}, **change)
    with pytest.raises(ValueError, match=f"config.json: .*{message}"):
        config_of(path)


@pytest.mark.parametrize("name", ["RobertaModel", 5])
def test_a_class_of_another_architecture_is_refused(name):
    with pytest.raises(ValueError, match=f"{name!r}, another architecture"):
        from_huggingface({"architectures": [name]})


def test_a_left_to_right_model_stays_here(goldens):
    values = json.loads((goldens / "bert_config.json").read_text())
    with pytest.raises(ValueError, match="left_to_right.*no counterpart"):
        to_huggingface(values | {"left_to_right": True})


@pytest.mark.slow
def test_minilm_is_the_same_in_both_formats(real_data):
    batch = {
        "input_ids": np.random.default_rng(0).integers(5, 30000, (3, 50)),
        "input_mask": np.arange(50) < [[50], [20], [3]],
        "token_type_ids": np.tile(np.arange(50) > 9, (3, 1)),
    }
    batch = {k: tf.constant(v.astype(np.int32)) for k, v in batch.items()}
    outputs = []
    for form, config_file in (
        ("huggingface", "config.json"),
        ("tf1", "bert_config.json"),
    ):
        folder = f"{real_data}/minilm/{form}"
        model = BertModel(BertConfig.from_json_file(f"{folder}/{config_file}"))
        report = load_weights(folder, model)
        assert not report.missing
        assert not report.unused
        outputs.append(model(**batch))
    for name in ("all_encoder_layers", "pooled_output"):
        pair = [np.asarray(getattr(output, name)) for output in outputs]
        rounding.assert_equal(*pair)
