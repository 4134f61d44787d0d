"""A tokenizer is checked against its model before anything is computed."""

import dataclasses

import pytest

from data.text.tokenizer_files import read_settings
from modeling import BertConfig
from tests.support.model_folder_support import write_huggingface, write_original
from tests.support.pretraining_support import make_options
from training.config.extraction_options import ExtractionOptions
from training.config.run_options import DeviceOptions
from training.runs.pretraining import keep_vocabulary
from training.start.found_files import load_tokenizer, read_files
from training.start.source import Source


def options_of(**given):
    return ExtractionOptions(
        input_file="", output_file="", device=DeviceOptions(), **given
    )


def load(vocab_file, config, init_checkpoint=None):
    options = options_of(
        init_checkpoint=init_checkpoint,
        bert_config_file="c/config.json",
        vocab_file=str(vocab_file),
        do_lower_case=True,
    )
    return load_tokenizer(options, config, Source(init_checkpoint))


@pytest.fixture
def config(goldens):
    return BertConfig.from_json_file(str(goldens / "bert_config.json"))


def test_a_vocabulary_of_another_size_is_refused(goldens, config):
    other = dataclasses.replace(config, vocab_size=config.vocab_size + 1000)
    path = goldens / "vocab.txt"
    message = (
        f"^{path} has 1200 wordpieces, but c/config.json says vocab_size 2200"
    )
    with pytest.raises(ValueError, match=f"{message}; give the vocabulary of"):
        load(path, other)


def test_a_vocabulary_without_a_special_token_is_refused(
    goldens, config, tmp_path
):
    path = tmp_path / "vocab.txt"
    text = (goldens / "vocab.txt").read_text("utf-8")
    path.write_text(text.replace("[SEP]\n", "[no]\n"), "utf-8")
    with pytest.raises(ValueError, match=r"vocab\.txt.*\[SEP\]"):
        load(path, config)


@pytest.mark.parametrize("name", ["", "bert_model.ckpt"])
def test_a_checkpoint_of_the_other_case_is_refused(
    goldens, config, tmp_path, name
):
    cased = write_original(goldens, tmp_path / "cased_L-12_H-768_A-12")
    with pytest.raises(ValueError, match="do_lower_case"):
        load(goldens / "vocab.txt", config, str(cased / name))


@pytest.fixture
def theirs(goldens, tmp_path):
    """A folder of Hugging Face, whose settings say more than its vocabulary."""
    folder = tmp_path / "theirs"
    write_huggingface(goldens, folder)
    (folder / "tokenizer_config.json").write_text(
        '{"do_lower_case": false, "additional_special_tokens": ["the"]}'
    )
    return folder


def test_the_settings_of_a_model_are_flags(goldens, theirs):
    assert Source(str(theirs)).tokenizer_flags == {
        "do_lower_case": False,
        "never_split": ("the",),
    }
    for says_nothing in (None, str(goldens / "model/trained"), "/no/such/one"):
        assert Source(says_nothing).tokenizer_flags == {}


def read(theirs, do_lower_case, never_split=()):
    flags = {"do_lower_case": do_lower_case, "never_split": never_split}
    options = options_of(init_checkpoint=str(theirs), **flags)
    return read_files(options.replace(given=frozenset(flags))).tokenizer


def test_flags_that_differ_from_the_model_are_warned_of(theirs, caplog):
    read(theirs, False, ("the",))
    assert "was made with" not in caplog.text
    read(theirs, True)
    model = f"the model of {theirs} was made with"
    assert [m for m in caplog.messages if model in m] == [
        f"--do_lower_case=True, but {model} False; this command uses True.",
        f"--never_split='', but {model} the; this command uses ''.",
    ]


def test_a_model_with_another_tokenizer_is_refused(theirs):
    path = theirs / "tokenizer_config.json"
    path.write_text('{"strip_accents": false}')
    message = f"^{path} says strip_accents: false, .* correct the file"
    with pytest.raises(ValueError, match=message):
        read(theirs, True)


def test_a_run_keeps_only_the_vocabulary_of_its_model(
    goldens, config, tmp_path, caplog, theirs
):
    source = goldens / "vocab.txt"
    options = make_options(goldens, tmp_path).replace(bert_config_file="c")

    def keep(path, config):
        keep_vocabulary(options.replace(vocab_file=str(path)), config, {})

    keep(source, config)
    assert (tmp_path / "vocab.txt").read_bytes() == source.read_bytes()
    assert not (tmp_path / "tokenizer_config.json").exists()
    keep(theirs / "vocab.txt", config)
    kept = read_settings(str(tmp_path))
    assert (kept.do_lower_case, kept.never_split) == (False, ("the",))
    (tmp_path / "vocab.txt").unlink()
    other = dataclasses.replace(config, vocab_size=9)
    for path, message in (
        (source, "has 1200 wordpieces, but c says vocab_size 9"),
        (tmp_path / "no.txt", "no.txt: no such text file"),
    ):
        keep(path, other)
        assert f"No vocabulary is kept in {tmp_path}: " in caplog.messages[-1]
        assert message in caplog.messages[-1]
    assert not (tmp_path / "vocab.txt").exists()
