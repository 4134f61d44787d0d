"""Vectors of text: what options and inputs are refused, and how."""

import re
import shutil

import pytest

from data import settings
from data.vectors import text_rows
from tests.support.model_folders import change_json
from training.config.extraction_options import ExtractionOptions, parse_layers
from training.runs import vectors as extraction
from training.vectors.extractor import Extractor

NEEDS = "--attention needs --format=npz and --pooling=none"
PNG = {"attention_png": "a.png"}


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
        ({"attention_line": 2}, "--attention_line needs --attention_png; give"),
        ({"attention": True}, NEEDS),
        ({"attention": True, "pooling": "cls", "format": "npz"}, NEEDS),
        (
            {"attention": True, "layers": (0, "embeddings")},
            "none; change --layers",
        ),
        ({"whole_words": True, "pooling": "max"}, "--whole_words.*--pooling"),
    ],
    ids=str,
)
def test_contradictions_are_refused(options, fields, message):
    with pytest.raises(ValueError, match=message):
        options.replace(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_seq_length": 129}, "--max_seq_length=129, .* 128 positions"),
        ({"layers": ()}, "--layers names no layer"),
        ({"layers": (-1, 3)}, "--layers: .* no layer 3; .* 0 to 2, .* to -3"),
        ({"layers": (-4,)}, "--layers: there is no layer -4"),
        (PNG | {"attention_layer": 3}, "--attention_layer: .* no layer 3"),
        (PNG | {"attention_head": 4}, "--attention_head=4; .* has 4: 0 to 3"),
        (PNG | {"attention_line": 6}, "--attention_line=6, .*txt .* 0 to 5"),
        ({"input_file": "/nowhere/a.txt"}, "/nowhere/a.txt: no such text file"),
        ({"vocab_file": "/nowhere/v.txt"}, "/nowhere/v.txt: no such"),
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
    config = tmp_path / "one.json"
    shutil.copy(options.bert_config_file, config)
    change_json(config, type_vocab_size=1)
    (tmp_path / "in.txt").write_text("a\nb ||| c\n")
    options = options.replace(
        bert_config_file=str(config), input_file=str(tmp_path / "in.txt")
    )
    with pytest.raises(ValueError, match="in.txt, line 2: .*type_vocab_size 1"):
        extraction.run(options)


def test_outputs_that_are_inputs_are_refused(options, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("good\n")
    same = {"input_file": str(text), "output_file": str(text)}
    with pytest.raises(ValueError, match="text.txt is a file of --input_f"):
        extraction.run(options.replace(**same))
    with pytest.raises(ValueError, match="is a file of --output_file, too"):
        extraction.run(options.replace(attention_png=options.output_file))
    model = tmp_path / "model"
    shutil.copytree(options.init_checkpoint, model)
    weights = list(model.glob("*.ckpt*.*"))  # data and index
    assert len(weights) == 2
    for path in weights:
        changes = {"init_checkpoint": str(model), "output_file": str(path)}
        with pytest.raises(ValueError, match="of --init_checkpoint, too"):
            extraction.run(options.replace(**changes))


def test_text_that_changes_while_it_is_read_is_refused(options, monkeypatch):
    monkeypatch.setattr(text_rows, "count_lines", lambda path: 7)
    with pytest.raises(ValueError, match="had 7 lines at first and 6 when"):
        extraction.run(options)
