"""Vectors of text: the original's, pooled, of words; attention; bad input."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from data import settings
from data.text.tokenization import FullTokenizer
from data.vectors import text_rows
from modeling import BertConfig, BertModel, checkpoints
from tests import rounding
from training.config.extraction_options import (
    ExtractionOptions,
    VectorOptions,
    parse_layers,
)
from training.config.options import DeviceOptions
from training.vectors import extraction
from training.vectors.extractor import Extractor


@pytest.fixture
def options(goldens, tmp_path):
    """As the golden vectors were made, to be changed."""
    return ExtractionOptions(
        input_file=str(goldens / "extract_features/input.txt"),
        output_file=str(tmp_path / "vectors"),
        bert_config_file=str(goldens / "bert_config.json"),
        init_checkpoint=str(goldens / "model/trained"),
        vocab_file=str(goldens / "vocab.txt"),
        max_seq_length=64,
        vectors=VectorOptions(layers=(-1, -2)),
        device=DeviceOptions(),
    )


@pytest.fixture(scope="module")
def rows(goldens):
    """Rows of 2 to 40 wordpieces, pairs among them."""
    tokenizer = FullTokenizer(str(goldens / "vocab.txt"))
    lines = (goldens / "extract_features/input.txt").read_text("utf-8")
    lines = ["", *lines.splitlines(), "a b", "x ||| y, z"]
    return [
        text_rows.make_row(line, tokenizer, 40, i)
        for i, line in enumerate(lines)
    ]


def changed(options, vectors=None, **fields):
    if vectors:
        fields["vectors"] = dataclasses.replace(options.vectors, **vectors)
    return dataclasses.replace(options, **fields)


def make_extractor(goldens, batch_size, dtype="float32", **vectors):
    config = BertConfig.from_json_file(str(goldens / "bert_config.json"))
    extractor = Extractor(
        BertModel(config, dtype=dtype),
        VectorOptions(**{"layers": (-1, 0)} | vectors),
        max_seq_length=40,
        batch_size=batch_size,
    )
    checkpoints.init_from_checkpoint(
        str(goldens / "model/trained"),
        checkpoints.variables_by_name([extractor.model]),
    )
    return extractor


def extract(goldens, rows, batch_size, **options):
    return make_extractor(goldens, batch_size, **options).extract(
        rows, lambda count: None
    )


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def assert_golden(path, goldens, tolerance=rounding.SIX_DECIMALS):
    ours = read_json(path)
    theirs = read_json(goldens / "extract_features/expected.jsonl")
    for our, their in zip(ours, theirs, strict=True):
        assert list(our) == list(their)
        assert our["linex_index"] == their["linex_index"]
        for x, y in zip(our["features"], their["features"], strict=True):
            assert list(x) == list(y)
            assert x["token"] == y["token"]
            for a, b in zip(x["layers"], y["layers"], strict=True):
                assert list(a) == list(b)
                assert a["index"] == b["index"]
                np.testing.assert_allclose(
                    a["values"], b["values"], rtol=0, atol=tolerance
                )


def test_json_lines_are_the_originals(options, goldens):
    extraction.run(options)
    assert_golden(options.output_file, goldens)


def test_windows_change_nothing(options, goldens, monkeypatch):
    monkeypatch.setattr(extraction, "_NUMBERS_AT_ONCE", 1)
    extraction.run(changed(options, batch_size=2))
    assert_golden(options.output_file, goldens)


def test_several_devices_and_one_hot_embeddings(options, goldens):
    extraction.run(
        changed(
            options,
            use_one_hot_embeddings=True,
            device=DeviceOptions(distribution_strategy="mirrored"),
        )
    )
    assert_golden(options.output_file, goldens)


def test_bfloat16_comes_near(options, goldens):
    extraction.run(changed(options, device=DeviceOptions(precision="bfloat16")))
    # Three blocks; what a layer norm gives has a mean square of 1, but for
    # gamma and beta.
    num_roundings = rounding.EMBEDDINGS + 3 * rounding.BLOCK
    bound = rounding.most(1.0, "bfloat16", num_roundings)
    assert_golden(options.output_file, goldens, tolerance=bound)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_golden(options.output_file, goldens)


@pytest.mark.parametrize(
    "vectors",
    [{"pooling": "mean"}, {"whole_words": True, "attention": True}],
    ids=str,
)
def test_batches_of_any_length_equal_one_at_a_time(goldens, rows, vectors):
    together = extract(goldens, rows, 4, **vectors)
    extractor = make_extractor(goldens, 1, **vectors)
    for row, line in list(zip(rows, together, strict=True))[::2]:
        (alone,) = extractor.extract([row], lambda count: None)
        assert line.index == alone.index == row.index
        assert line.names == alone.names
        np.testing.assert_allclose(
            line.vectors, alone.vectors, atol=rounding.EQUAL
        )
        if "attention" in vectors:
            np.testing.assert_allclose(
                line.attention, alone.attention, atol=rounding.EQUAL
            )


def test_layers_by_number_and_name(goldens, rows):
    extractor = make_extractor(goldens, 4, layers=(2, 0, -3, "embeddings"))
    told = []
    lines = extractor.extract(rows, told.append)
    assert told == [4, 4, 1]  # for the progress bar
    for row, line in zip(rows, lines, strict=True):
        output = extractor.model(
            tf.constant([row.input_ids]), None, tf.constant([row.segment_ids])
        )
        blocks = output.all_encoder_layers
        wanted = (blocks[2], blocks[0], blocks[0], output.embedding_output)
        for i, layer in enumerate(wanted):
            np.testing.assert_allclose(
                line.vectors[:, i], layer[0], atol=rounding.EQUAL
            )


def test_poolings_and_mixes_in_the_files(options):
    def vectors_of(pooling, mix, file_format="npz"):
        extraction.run(
            changed(
                options,
                {"pooling": pooling, "layer_mix": mix},
                format=file_format,
            )
        )
        if file_format == "jsonl":
            return read_json(options.output_file)
        with np.load(options.output_file) as read:
            return {name: read[name] for name in read.files}

    each = vectors_of("none", "separate")
    assert each["vectors_0"].shape == (len(each["tokens_0"]), 2, 32)
    tokens = [each[f"vectors_{i}"] for i in range(6)]
    mean = vectors_of("mean", "concat")
    assert mean["layers"].tolist() == ["-1,-2"]
    np.testing.assert_allclose(
        mean["vectors"],
        [x.mean(axis=0).reshape(1, 64) for x in tokens],
        atol=rounding.ONE_SUM,
    )
    largest = vectors_of("max", "separate")
    assert largest["layers"].tolist() == ["-1", "-2"]
    np.testing.assert_array_equal(
        largest["vectors"], [x.max(axis=0) for x in tokens]
    )
    lines = vectors_of("cls", "sum", "jsonl")
    for i, line in enumerate(lines):
        ((name, (layer,)),) = [f.values() for f in line["features"]]
        assert (name, layer["index"]) == ("cls", [-1, -2])
        expected = tokens[i][0].sum(axis=0)
        np.testing.assert_allclose(
            layer["values"], expected, atol=rounding.SIX_DECIMALS
        )


def test_whole_words(options, goldens):
    extraction.run(options)
    pieces = read_json(options.output_file)
    extraction.run(changed(options, {"whole_words": True}))
    words = read_json(options.output_file)
    tokenizer = FullTokenizer(str(goldens / "vocab.txt"))
    with open(options.input_file, encoding="utf-8") as file:
        texts = file.read().splitlines()
    num_joined = 0
    for text, line, of_pieces in zip(texts, words, pieces, strict=True):
        names = [feature["token"] for feature in line["features"]]
        parts = text.split("|||")
        cut = [tokenizer.basic_tokenizer.tokenize(part) for part in parts]
        expected = ["[CLS]"] + sum([[*part, "[SEP]"] for part in cut], [])
        assert names == expected
        features = iter(of_pieces["features"])
        for word in line["features"]:
            special = word["token"] in ("[CLS]", "[SEP]")
            count = 1
            if not special:
                count = len(tokenizer.tokenize(word["token"]))
            num_joined += count > 1
            some = [next(features)["layers"] for _ in range(count)]
            for i, layer in enumerate(word["layers"]):
                np.testing.assert_allclose(
                    layer["values"],
                    np.mean([x[i]["values"] for x in some], axis=0),
                    atol=rounding.SIX_DECIMALS,
                )
        assert not list(features)
    assert num_joined > 10


def test_attention_is_shared_out_among_real_wordpieces(goldens, rows):
    lines = extract(goldens, rows, 16, attention=True)
    for row, line in zip(rows, lines, strict=True):
        size = len(row.tokens)
        assert line.attention.shape == (2, 4, size, size)
        assert list(line.tokens) == row.tokens
        # All of it, so that padding, which was cut off, had none.
        np.testing.assert_allclose(
            line.attention.sum(axis=-1), 1, atol=rounding.ONE_SUM
        )
        assert (line.attention > 0).all()


def test_padding_is_not_looked_at(goldens, rows):
    extractor = make_extractor(goldens, 16)
    batch = text_rows.pad_rows(rows, batch_size=len(rows), length=40)
    output = extractor.model(batch["input_ids"], batch["input_mask"])
    hidden = batch["input_mask"][:, None, None, :] == 0
    assert hidden.any()
    for maps in output.attention_probs:
        assert (np.where(hidden, maps, 0.0) == 0.0).all()
        np.testing.assert_allclose(
            maps.numpy().sum(axis=-1), 1, atol=rounding.ONE_SUM
        )


def test_attention_maps_and_their_picture(options, tmp_path):
    picture = tmp_path / "attention.png"
    extraction.run(
        changed(
            options,
            {"attention": True, "whole_words": True},
            format="npz",
            attention_png=str(picture),
            attention_line=5,
            attention_head=2,
        )
    )
    with np.load(options.output_file) as read:
        tokens = read["attention_tokens_5"]
        assert len(tokens) > len(read["tokens_5"])
        assert read["attention_5"].shape == (2, 4, len(tokens), len(tokens))
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_cut_lines_are_told(options, monkeypatch):
    told = []
    monkeypatch.setattr(
        logging, "warning", lambda text, *args: told.append(text % args)
    )
    extraction.run(changed(options, max_seq_length=12))
    assert told == [
        "6 of 6 lines were longer than --max_seq_length=12 wordpieces and "
        "lost what did not fit."
    ]
    lines = read_json(options.output_file)
    assert max(len(line["features"]) for line in lines) == 12


def test_weights_of_another_direction_are_warned_of(
    options, goldens, tmp_path, caplog
):
    folder = tmp_path / "model"
    shutil.copytree(goldens / "model/trained", folder)
    values = json.loads((goldens / "bert_config.json").read_text())
    values["left_to_right"] = True
    (folder / "bert_config.json").write_text(json.dumps(values))
    extraction.run(changed(options, init_checkpoint=str(folder)))
    assert (
        f"The weights of {folder} were trained left to right, but in the model "
        "of --bert_config_file each position sees all others. Give "
        f"--bert_config_file={folder}/bert_config.json, unless you mean it."
    ) in caplog.text


def test_the_first_wordpiece_of_a_left_to_right_model_is_refused(
    options, goldens, tmp_path
):
    values = json.loads((goldens / "bert_config.json").read_text())
    config = tmp_path / "bert_config.json"
    config.write_text(json.dumps(values | {"left_to_right": True}))
    options = changed(options, bert_config_file=str(config))
    message = (
        r"pooling is cls, but the model reads left to right \(left_to_right in "
        r"its bert_config.json\): .* same vector. Use mean or max\.$"
    )
    with pytest.raises(ValueError, match=message):
        extraction.run(changed(options, {"pooling": "cls"}))
    extraction.run(changed(options, {"pooling": "mean"}))


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
    with pytest.raises(ValueError, match="'last' is no layer; give numbers"):
        parse_layers("-1,last")
    with pytest.raises(ValueError, match="'' is no layer"):
        parse_layers("-1,")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_seq_length": 2}, "--max_seq_length=2; it must be at least 3"),
        ({"batch_size": 0}, "--batch_size=0; it must be at least 1"),
        ({"attention_line": -1}, "--attention_line=-1; it must be at least 0"),
        (
            {"vectors": {"attention": True}},
            "--attention needs --format=npz and --pooling=none",
        ),
        (
            {"vectors": {"attention": True, "pooling": "cls"}, "format": "npz"},
            "--attention needs --format=npz and --pooling=none",
        ),
        (
            {"vectors": {"attention": True, "layers": (0, "embeddings")}},
            "--attention: the embeddings have none",
        ),
        (
            {"vectors": {"whole_words": True, "pooling": "max"}},
            "--whole_words gives a vector for each word, --pooling=max one",
        ),
    ],
    ids=str,
)
def test_contradictions_are_refused(options, fields, message):
    with pytest.raises(ValueError, match=message):
        changed(options, **fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"max_seq_length": 129},
            r"--max_seq_length=129, but the model of .* has 128 positions",
        ),
        (
            {"vectors": {"layers": (-1, 3)}},
            r"--layers: there is no layer 3; the model of .* has 3: 0 to 2, or "
            r"-1 \(the last\) to -3",
        ),
        ({"vectors": {"layers": (-4,)}}, "--layers: there is no layer -4"),
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
    monkeypatch.setattr(Extractor, "extract", None)
    monkeypatch.setattr(Extractor, "attention", None)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        extraction.run(changed(options, **fields))
    assert not list(tmp_path.iterdir())


def test_other_bad_files_are_refused(options, tmp_path):
    text = tmp_path / "text.txt"
    text.write_bytes(b"good\nbad \xe9\n")
    with pytest.raises(ValueError, match="text.txt, line 2: byte 5"):
        extraction.run(changed(options, input_file=str(text)))
    with pytest.raises(ValueError, match="text.txt is an input, too; give"):
        text.write_text("good\n")
        extraction.run(
            changed(options, input_file=str(text), output_file=str(text))
        )
    with pytest.raises(ValueError, match="is another output, too"):
        extraction.run(changed(options, attention_png=options.output_file))
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    with pytest.raises(ValueError, match="has 4 wordpieces, but .*bert_config"):
        extraction.run(changed(options, vocab_file=str(vocab)))


def test_text_that_changes_while_it_is_read_is_refused(options, monkeypatch):
    monkeypatch.setattr(text_rows, "count_lines", lambda path: 7)
    with pytest.raises(ValueError, match="had 7 lines at first and 6 when"):
        extraction.run(options)
