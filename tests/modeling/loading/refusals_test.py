import shutil

import pytest

import modeling
from modeling import BertModel
from tests.support import model_folder_support
from tests.support.serving_support import finished_run


def refused(folder, error, message, **options):
    with pytest.raises(error, match=message):
        modeling.load(str(folder), **options)


def test_what_is_no_folder_is_refused(original, tmp_path):
    refused(
        "bert-base-uncased",
        FileNotFoundError,
        "'bert-base-uncased': there is no such folder.* Give a folder .*"
        "nothing is downloaded: unpack a zip .*, or get config.json, vocab",
    )
    refused("", FileNotFoundError, "'': .*Give .*bert_config.json, vocab.txt")
    refused(tmp_path / "gone", FileNotFoundError, "gone'.*no such folder")
    refused("hf://a/b", OSError, r"hf://a/b: .*cannot be read \(File sy")
    message = "bert_config.json is a file; give .* here .*/uncas"
    refused(original / "bert_config.json", ValueError, message)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        BertModel.from_folder("bert-base-uncased")


def test_a_folder_without_a_model_says_what_it_holds(original, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    refused(empty, FileNotFoundError, "empty holds no model, but nothing. Give")
    for number in range(20):
        (empty / f"part-{number:02}.txt").touch()
    message = "no model, but part-00.txt, .*part-19.txt. Give bert_config.json"
    refused(empty, FileNotFoundError, message)
    (original / "bert_model.ckpt.index").unlink()
    refused(original, FileNotFoundError, "no model, but bert_config.json, ")


def test_a_latest_checkpoint_that_is_gone_is_said(original, logged):
    text = 'model_checkpoint_path: "model.ckpt-20"'
    (original / "checkpoint").write_text(text)
    modeling.load(str(original))
    assert "not there (model.ckpt-20); taking bert_model.ckpt" in logged.text


def test_a_folder_of_two_models_is_refused(original, goldens, tmp_path):
    both = tmp_path / "both"
    model_folder_support.write_huggingface(goldens, both)
    for path in original.iterdir():
        shutil.copy(path, both)
    message = "two models, bert_model.ckpt .* one of Hugging Face's; put each"
    refused(both, ValueError, message)
    for ending in ".index", ".data-00000-of-00001":
        shutil.copy(
            original / f"bert_model.ckpt{ending}", original / f"a.ckpt{ending}"
        )
    message = "2 models, a.ckpt, bert_model.ckpt, .*prefix: .*/uncased/a.ckpt$"
    refused(original, ValueError, message)
    assert modeling.load(str(original / "a.ckpt")).kind == "pretraining"


def test_missing_files_are_named(original, tmp_path):
    (original / "vocab.txt").rename(tmp_path / "words.txt")
    message = (
        "no vocab.txt and no tokenizer.json; pass vocab_file= .--vocab_file"
    )
    refused(original, FileNotFoundError, message)
    words = str(tmp_path / "words.txt")
    assert modeling.load(str(original), vocab_file=words).tokenizer.vocab
    (original / "bert_config.json").unlink()
    message = "bert_model.ckpt is there, but no bert_config.json or config.json"
    refused(original, FileNotFoundError, message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "classification"}, "no output_weights. Pass kind="),
        ({"kind": "span"}, "is no span model: it has no"),
        ({"kind": "poetry"}, "'poetry'; it must be one of encoder, pretr"),
        ({"num_choices": 3}, "=3 is for a model of the kind choice, but .* is"),
        ({"name": "query"}, "name .*from_folder"),
    ],
)
def test_options_of_another_kind_are_refused(original, options, message):
    refused(original, ValueError, message, **options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "poem"}, "its kind of model is 'poem'; it must be"),
        ({"labels": ["a", "b", "c"]}, r"3 labels \(a, b, c\).* 2; correct"),
        ({"weights": 7}, "task.json is damaged: weights is 7 and mod"),
    ],
)
def test_a_wrong_description_is_refused(goldens, tmp_path, changes, message):
    finished_run(goldens, tmp_path, "classification")
    model_folder_support.change_description(tmp_path, **changes)
    refused(tmp_path, ValueError, message)


def test_a_damaged_description_or_a_wrong_vocabulary_is_refused(
    goldens, tmp_path
):
    finished_run(goldens, tmp_path, "classification")
    (tmp_path / "task.json").write_text("{")
    refused(tmp_path, ValueError, "task.json is damaged")
    (tmp_path / "task.json").unlink()
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    message = "vocab.txt has 4 wordpieces, but .* vocab_size 1200"
    refused(tmp_path, ValueError, message, kind="classification")
