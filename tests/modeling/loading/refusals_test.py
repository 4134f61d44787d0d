"""Folders that hold no model, several, or a damaged one."""

import json
import shutil

import pytest

import modeling
from modeling import BertModel
from tests.support.model_folder_support import (
    write_huggingface,
)
from tests.support.serving_support import finished_run


def refused(folder, error, message, **options):
    with pytest.raises(error, match=message):
        modeling.load(str(folder), **options)


def test_what_is_no_folder_is_refused(original, tmp_path):
    refused(
        "bert-base-uncased",
        FileNotFoundError,
        "'bert-base-uncased': there is no such folder, and no checkpoint of "
        "this prefix. Give a folder with .* nothing is downloaded: unpack a "
        "zip that the README of github.com/google-research/bert links to, or "
        "get config.json, vocab",
    )
    refused(
        "",
        FileNotFoundError,
        "'': there is no such folder.* Give a folder with bert_config.json, "
        "vocab.txt and a checkpoint such as .*, or config.json, vocab.txt and",
    )
    refused(tmp_path / "gone", FileNotFoundError, "gone'.*no such folder")
    refused(
        original / "bert_config.json",
        ValueError,
        "bert_config.json is a file; give the folder of a model, here .*/orig",
    )
    with pytest.raises(FileNotFoundError, match="no such folder"):
        BertModel.from_folder("bert-base-uncased")


def test_a_storage_that_is_not_there_is_named():
    refused(
        "hf://a/b", OSError, r"hf://a/b: the folder cannot be read \(File sy"
    )


def test_a_folder_without_a_model_says_what_it_holds(original, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    refused(empty, FileNotFoundError, "empty holds no model, but nothing. Give")
    for number in range(20):
        (empty / f"part-{number:02}.txt").touch()
    refused(
        empty,
        FileNotFoundError,
        "no model, but part-00.txt, .*part-19.txt. Give "
        "bert_config.json, vocab.txt and a checkpoint such as bert_model.ckpt",
    )
    (original / "bert_model.ckpt.index").unlink()
    refused(original, FileNotFoundError, "no model, but bert_config.json, ")


def test_a_folder_of_two_models_is_refused(original, goldens, tmp_path):
    both = tmp_path / "both"
    write_huggingface(goldens, both)
    for path in original.iterdir():
        shutil.copy(path, both)
    refused(
        both,
        ValueError,
        "both holds two models, bert_model.ckpt of the original's format and "
        "one of Hugging Face's; put each into a folder",
    )
    for ending in ".index", ".data-00000-of-00001":
        shutil.copy(
            original / f"bert_model.ckpt{ending}", original / f"a.ckpt{ending}"
        )
    refused(
        original,
        ValueError,
        "holds 2 models, a.ckpt, bert_model.ckpt, and no `checkpoint` file "
        "that names one of them; give one by its prefix: .*/original/a.ckpt$",
    )
    assert modeling.load(str(original / "a.ckpt")).kind == "pretraining"


def test_missing_files_are_named(original, goldens, tmp_path):
    (original / "vocab.txt").rename(tmp_path / "words.txt")
    refused(
        original,
        FileNotFoundError,
        "original has no vocab.txt and no tokenizer.json; pass vocab_file=",
    )
    words = str(tmp_path / "words.txt")
    assert modeling.load(str(original), vocab_file=words).tokenizer.vocab
    (original / "bert_config.json").unlink()
    refused(
        original,
        FileNotFoundError,
        "bert_model.ckpt is there, but no bert_config.json or config.json in",
    )


def test_files_that_do_not_fit_are_refused(original, goldens, tmp_path):
    refused(
        original,
        ValueError,
        "is no classification model: it has no output_weights. Pass kind=",
        kind="classification",
    )
    refused(original, ValueError, "is no span model: it has no", kind="span")
    refused(
        original,
        ValueError,
        "its kind of model is 'poetry'; it must be one of encoder, pretr",
        kind="poetry",
    )
    finished_run(goldens, original, "classification")
    (original / "bert_model.ckpt.index").unlink()
    facts = json.loads((original / "task.json").read_text())
    (original / "task.json").write_text(json.dumps(facts | {"kind": "poem"}))
    refused(original, ValueError, "its kind of model is 'poem'; it must be")
    facts["labels"] = ["no", "yes", "perhaps"]
    (original / "task.json").write_text(json.dumps(facts))
    refused(
        original,
        ValueError,
        r"names 3 labels \(no, yes, perhaps\), but the output layer of .* has "
        "2; correct the names",
    )
    (original / "task.json").write_text(json.dumps(facts | {"weights": 7}))
    refused(original, ValueError, "task.json is damaged: weights is 7 and mod")
    (original / "task.json").write_text("{")
    refused(original, ValueError, "task.json is damaged")
    (original / "task.json").unlink()
    (original / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    refused(
        original,
        ValueError,
        "vocab.txt has 4 wordpieces, but .*bert_config.json says vocab_size "
        "1200",
        kind="classification",
    )
