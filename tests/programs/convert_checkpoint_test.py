import dataclasses
import json
import os

import numpy as np
import pytest
from safetensors.numpy import load_file

from modeling import BertConfig, checkpoints
from tests.support import fork_server
from tests.support import huggingface_support as theirs
from tests.support.conversion_support import convert, refused
from tests.support.model_folder_support import write_huggingface
from training.convert import conversion
from training.start import first_weights
from training.start.source import Source


@pytest.fixture
def vocab(goldens):
    return (goldens / "vocab.txt").read_bytes()


@pytest.fixture
def folder(goldens, tmp_path):
    """A model of Hugging Face for pretraining."""
    path = tmp_path / "theirs"
    write_huggingface(goldens, path, "BertForPreTraining")
    (path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    return path


CHECKPOINT = ["bert_model.ckpt.data-00000-of-00001", "bert_model.ckpt.index"]
TOKENIZER = ["tokenizer_config.json", "vocab.txt"]
OURS = ["bert_config.json", *CHECKPOINT, *TOKENIZER]
THEIRS = ["config.json", "model.safetensors", "special_tokens_map.json"]
THEIRS += TOKENIZER
OTHER_SIZE = theirs.CONFIG | {
    "architectures": ["BertForPreTraining"],
    "intermediate_size": 21,
}


def names_in(path):
    return sorted(p.name for p in path.iterdir())


def test_there_and_back_is_the_same_bit_for_bit(folder, vocab, tmp_path):
    ours = convert(folder, tmp_path / "ours")
    assert names_in(ours) == OURS
    config = BertConfig.from_json_file(str(ours / "bert_config.json"))
    assert config.hidden_act == "gelu_exact"
    back = convert(ours, tmp_path / "back")
    assert names_in(back) == THEIRS
    assert (back / "vocab.txt").read_bytes() == vocab
    assert len({path.stat().st_mode for path in back.iterdir()}) == 1
    tensors = load_file(back / "model.safetensors")
    expected = theirs.tensors_of("BertForPreTraining")
    assert tensors.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(tensors[name], value)
    values = json.loads((back / "config.json").read_text())
    assert values.pop("architectures") == ["BertForPreTraining"]
    assert values.items() <= theirs.CONFIG.items()
    tokenizer = json.loads((back / "tokenizer_config.json").read_text())
    assert tokenizer["do_lower_case"] is False


def convert_golden(goldens, target, vocab_file):
    """Converts the original's folder, which has weights alone."""
    return convert(
        goldens / "model/trained",
        target,
        bert_config_file=str(goldens / "bert_config.json"),
        vocab_file=str(vocab_file),
    )


def test_the_originals_checkpoint_comes_back_bit_for_bit(goldens, tmp_path):
    original = checkpoints.open_checkpoint(str(goldens / "model/trained"))
    there = convert_golden(goldens, tmp_path / "there", goldens / "vocab.txt")
    values = json.loads((there / "config.json").read_text())
    assert values["hidden_act"] == "gelu_new"
    assert values["architectures"] == ["BertForPreTraining"]
    back = convert(there, tmp_path / "back")
    ours = checkpoints.open_checkpoint(str(back))
    assert len(ours.shapes) == 62
    for name in ours.shapes:
        np.testing.assert_array_equal(ours.read(name), original.read(name))
    text = (goldens / "bert_config.json").read_text()
    assert (back / "bert_config.json").read_text() == text


@pytest.mark.parametrize("is_cased", [True, False])
def test_without_a_word_of_it_the_vocabulary_says_the_case(
    goldens, vocab, tmp_path, is_cased
):
    tokens = vocab.decode().splitlines()
    if is_cased:
        tokens = [t.capitalize() if t.isalpha() else t for t in tokens]
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("".join(f"{t}\n" for t in tokens))
    target = convert_golden(goldens, tmp_path / "target", vocab_file)
    tokenizer = json.loads((target / "tokenizer_config.json").read_text())
    assert tokenizer["do_lower_case"] is not is_cased


def test_a_vocabulary_within_tokenizer_json_is_taken(folder, vocab, tmp_path):
    tokens = vocab.decode().splitlines()
    (folder / "vocab.txt").unlink()
    model = {"type": "WordPiece", "vocab": {t: i for i, t in enumerate(tokens)}}
    file = folder / "tokenizer.json"
    file.write_text(json.dumps({"model": model}))
    ours = convert(folder, tmp_path / "ours")
    assert (ours / "vocab.txt").read_bytes() == vocab
    file.write_text(json.dumps({"model": model | {"type": "BPE"}}))
    more = tmp_path / "more"
    refused("its model is 'BPE'.*--vocab_file", folder, more)
    file.unlink()
    refused("neither vocab.txt nor token", folder, more, FileNotFoundError)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", json.dumps(OTHER_SIZE), "does not fit"),
        ("vocab.txt", "[PAD]\n[UNK]\n", "has 2 wordpieces, but"),
        (TOKENIZER[0], '{"strip_accents": false}', "strip_accents: false, but"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    folder, tmp_path, name, text, message
):
    (folder / name).write_text(text)
    for form in conversion.FORMATS:
        refused(message, folder, tmp_path / "new", output_format=form)


@pytest.mark.parametrize(
    ("target", "link_to"),
    [(".", None), ("out/", None), ("out", "disk"), ("out", "disk/new")],
)
def test_an_empty_folder_is_filled_and_stays(
    folder, tmp_path, monkeypatch, target, link_to
):
    for name in ("here", "disk"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    if link_to:
        os.symlink(tmp_path / link_to, "out")
    elif target != ".":
        os.mkdir("out")
    before = os.path.exists(target) and os.stat(target).st_ino
    convert(folder, target)
    assert before in (False, os.stat(target).st_ino)
    assert os.path.islink(target) == bool(link_to)
    assert sorted(os.listdir(target)) == OURS
    assert not list(tmp_path.rglob("*incomplete*"))


def test_nothing_is_written_over(folder, tmp_path):
    target = tmp_path / "target"
    convert(folder, target)
    before = {p.name: p.read_bytes() for p in target.iterdir()}
    with pytest.raises(ValueError, match="not empty; nothing was written"):
        convert(folder, target)
    assert {p.name: p.read_bytes() for p in target.iterdir()} == before


def test_another_activation_is_warned_of(folder, caplog):
    config = BertConfig.from_json_file(str(folder / "config.json"))
    tanh = dataclasses.replace(config, hidden_act="gelu")
    for model_config in (config, tanh):
        first_weights.compare(Source(str(folder)), model_config)
    (message,) = [m for m in caplog.messages if "bert_config_file" in m]
    assert "says hidden_act gelu, but" in message
    assert "gelu_exact (the erf form; Hugging Face calls it gelu)" in message
    assert f"Give --bert_config_file={folder}/config.json" in message


def test_the_program_converts_and_says_what(folder, tmp_path):
    flags = f"--model={folder}", f"--output_dir={tmp_path}/ours"
    done = fork_server.python("convert_checkpoint.py", *flags)
    assert "need --do_lower_case=False" in done.stderr
    assert "ours holds bert_config.json, bert_model.ckpt" in done.stderr
