"""Vectors of text: what options and inputs are refused, and how."""

import json
import pathlib
import re

import pytest

from data import settings
from data.vectors import text_rows
from training.config.extraction_options import (
    ExtractionOptions,
    parse_layers,
)
from training.runs import vectors as extraction
from training.vectors.extractor import Extractor


def helps_of(options_class):
    """The help of all flags of a program."""
    for field in settings.fields_of(options_class):
        if field.is_group:
            yield from helps_of(field.type)
        elif field.setting:
            yield field.setting.help


def test_the_help_names_flags_that_there_are():
    named = set(re.findall(r"--(\w+)", " ".join(helps_of(ExtractionOptions))))
    assert "init_checkpoint" in named
    assert named <= settings.names_of(ExtractionOptions)


def test_layers_are_read():
    assert parse_layers("-1,-2, 0,embeddings") == (-1, -2, 0, "embeddings")
    with pytest.raises(ValueError, match="'last' is not a layer; give numbers"):
        parse_layers("-1,last")
    with pytest.raises(ValueError, match="'' is not a layer"):
        parse_layers("-1,")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_seq_length": 2}, "--max_seq_length=2; it must be at least 3"),
        ({"batch_size": 0}, "--batch_size=0; it must be at least 1"),
        ({"attention_line": -1}, "--attention_line=-1; it must be at least 0"),
        (
            {"attention": True},
            "--attention needs --format=npz and --pooling=none",
        ),
        (
            {"attention": True, "pooling": "cls", "format": "npz"},
            "--attention needs --format=npz and --pooling=none",
        ),
        (
            {"attention": True, "layers": (0, "embeddings")},
            "--attention: the embeddings have none",
        ),
        (
            {"whole_words": True, "pooling": "max"},
            "--whole_words=True contradicts --pooling=max; drop one",
        ),
    ],
    ids=str,
)
def test_contradictions_are_refused(options, fields, message):
    with pytest.raises(ValueError, match=message):
        options.replace(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"max_seq_length": 129},
            r"--max_seq_length=129, but the model of .* has 128 positions",
        ),
        ({"layers": ()}, "--layers names no layer"),
        (
            {"layers": (-1, 3)},
            r"--layers: there is no layer 3; the model of .* has 3: 0 to 2, or "
            r"-1 \(the last\) to -3",
        ),
        ({"layers": (-4,)}, "--layers: there is no layer -4"),
        (
            {"attention_png": "a.png", "attention_layer": 3},
            "--attention_layer: there is no layer 3",
        ),
        (
            {"attention_png": "a.png", "attention_head": 4},
            r"--attention_head=4; the model of .* has 4: 0 to 3",
        ),
        (
            {"attention_png": "a.png", "attention_line": 6},
            r"--attention_line=6, but .*input.txt has 6 lines: 0 to 5",
        ),
        ({"input_file": "/nowhere/a.txt"}, "/nowhere/a.txt: no such text file"),
        ({"vocab_file": "/nowhere/v.txt"}, "/nowhere/v.txt: no such"),
        (
            {"init_checkpoint": "/x/cased_L-12_H-768_A-12/bert_model.ckpt"},
            "--do_lower_case=True does not fit --init_checkpoint=.*; pass "
            "--do_lower_case=False",
        ),
        ({"init_checkpoint": "/nowhere/bert_model.ckpt"}, "/nowhere"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_early(
    options, monkeypatch, tmp_path, fields, message
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Extractor, "extract_all", None)
    monkeypatch.setattr(Extractor, "attention", None)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        extraction.run(options.replace(**fields))
    assert not list(tmp_path.iterdir())


def test_pairs_need_two_segment_types(options, tmp_path, monkeypatch):
    monkeypatch.setattr(Extractor, "extract_all", None)
    config = json.loads(pathlib.Path(options.bert_config_file).read_text())
    (tmp_path / "one.json").write_text(
        json.dumps(config | {"type_vocab_size": 1})
    )
    (tmp_path / "in.txt").write_text("a\nb ||| c\n")
    changes = {
        "bert_config_file": str(tmp_path / "one.json"),
        "input_file": str(tmp_path / "in.txt"),
    }
    with pytest.raises(
        ValueError, match=r"in.txt, line 2: .*type_vocab_size 1"
    ):
        extraction.run(options.replace(**changes))


def test_other_bad_files_are_refused(options, tmp_path):
    text = tmp_path / "text.txt"
    text.write_bytes(b"good\nbad \xe9\n")
    with pytest.raises(ValueError, match="text.txt, line 2: byte 5"):
        extraction.run(options.replace(input_file=str(text)))
    with pytest.raises(ValueError, match="text.txt is a file of --input_f"):
        text.write_text("good\n")
        extraction.run(
            options.replace(input_file=str(text), output_file=str(text))
        )
    with pytest.raises(ValueError, match="is a file of --output_file, too"):
        extraction.run(options.replace(attention_png=options.output_file))
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    with pytest.raises(ValueError, match="has 4 wordpieces, but .*bert_config"):
        extraction.run(options.replace(vocab_file=str(vocab)))


def test_text_that_changes_while_it_is_read_is_refused(options, monkeypatch):
    monkeypatch.setattr(text_rows, "count_lines", lambda path: 7)
    with pytest.raises(ValueError, match="had 7 lines at first and 6 when"):
        extraction.run(options)
