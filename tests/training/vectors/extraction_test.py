"""Vectors of text: the original's, pooled, of words; attention."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from data.progress import Progress
from data.text.tokenization import FullTokenizer
from data.vectors import text_rows
from modeling import BertConfig, BertModel
from tests.support import rounding
from tests.support.model_folder_support import load_weights
from tests.support.model_folders import change_json, write_released
from tests.support.run_files import json_lines_in
from tests.support.tiers import rare
from tests.support.vectors_support import assert_golden
from training.config.extraction_options import VectorOptions
from training.runs import vectors as extraction
from training.vectors.extractor import Extractor


@pytest.fixture(scope="module")
def rows(goldens):
    """Rows of 2 to 40 wordpieces, pairs among them."""
    tokenizer = FullTokenizer(str(goldens / "vocab.txt"))
    lines = (goldens / "extract_features/input.txt").read_text("utf-8")
    lines = ["", *lines.splitlines(), "a b", "x ||| y, z"]
    return [
        text_rows.RowMaker(tokenizer, 40).line(line, i)
        for i, line in enumerate(lines)
    ]


def make_extractor(goldens, batch_size, dtype="float32", **vectors):
    config = BertConfig.from_json_file(str(goldens / "bert_config.json"))
    extractor = Extractor(
        BertModel(config, dtype=dtype),
        VectorOptions(**{"layers": (-1, 0)} | vectors),
        max_seq_length=40,
        batch_size=batch_size,
    )
    load_weights(goldens / "model/trained", extractor.model)
    return extractor


def extract(goldens, rows, batch_size, **options):
    extractor = make_extractor(goldens, batch_size, **options)
    return list(extractor.extract_all(rows, len(rows)))


def test_windows_change_nothing(options, goldens, monkeypatch):
    """Lines of one window are in tests/programs/extract_features_test.py."""
    monkeypatch.setattr(text_rows, "_NUMBERS_OF_WINDOW", 1)
    extraction.run(options.replace(batch_size=2))
    assert_golden(options.output_file, goldens)


def test_several_devices_and_one_hot_embeddings(options, goldens):
    devices = {"distribution_strategy": "mirrored"}
    extraction.run(options.replace(use_one_hot_embeddings=True, **devices))
    assert_golden(options.output_file, goldens)


def test_bfloat16_comes_near(options, goldens):
    extraction.run(options.replace(precision="bfloat16"))
    # Three blocks; what a layer norm gives has a mean square of 1, but for
    # gamma and beta.
    num_roundings = rounding.EMBEDDINGS + 3 * rounding.BLOCK
    bound = rounding.most(1.0, "bfloat16", num_roundings)
    assert_golden(options.output_file, goldens, tolerance=bound)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_golden(options.output_file, goldens)


@pytest.mark.parametrize(
    "vectors",
    [{"pooling": "mean"}, rare({"whole_words": True, "attention": True})],
    ids=str,
)
def test_batches_of_any_length_equal_one_at_a_time(goldens, rows, vectors):
    together = extract(goldens, rows, 4, **vectors)
    extractor = make_extractor(goldens, 1, **vectors)
    for row, line in list(zip(rows, together, strict=True))[::2]:
        (alone,) = extractor.extract_all([row], 1)
        assert line.index == alone.index == row.index
        assert line.names == alone.names
        rounding.assert_equal(line.vectors, alone.vectors)
        if "attention" in vectors:
            rounding.assert_equal(line.attention, alone.attention)


def test_layers_by_number_and_name(goldens, rows, monkeypatch):
    extractor = make_extractor(goldens, 4, layers=(2, 0, -3, "embeddings"))
    told = []

    def advance(_, count):
        told.append(count)

    monkeypatch.setattr(Progress, "advance", advance)
    lines = list(extractor.extract_all(rows, len(rows)))
    assert told == [4, 4, 1]  # for the progress bar
    for row, line in zip(rows, lines, strict=True):
        output = extractor.model(
            tf.constant([row.input_ids]), None, tf.constant([row.segment_ids])
        )
        blocks = output.all_encoder_layers
        wanted = (blocks[2], blocks[0], blocks[0], output.embedding_output)
        for i, layer in enumerate(wanted):
            rounding.assert_equal(line.vectors[:, i], layer[0])


def test_poolings_and_mixes_in_the_files(options):
    def vectors_of(pooling, mix, file_format="npz"):
        extraction.run(
            options.replace(pooling=pooling, layer_mix=mix, format=file_format)
        )
        if file_format == "jsonl":
            return json_lines_in(options.output_file)
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
    for i, line in enumerate(vectors_of("cls", "sum", "jsonl")):
        ((name, (layer,)),) = [f.values() for f in line["features"]]
        assert (name, layer["index"]) == ("cls", [-1, -2])
        expected = tokens[i][0].sum(axis=0)
        np.testing.assert_allclose(
            layer["values"], expected, atol=rounding.SIX_DECIMALS
        )


def test_whole_words(options, goldens):
    extraction.run(options)
    pieces = json_lines_in(options.output_file)
    extraction.run(options.replace(whole_words=True))
    words = json_lines_in(options.output_file)
    tokenizer = FullTokenizer(str(goldens / "vocab.txt"))
    texts = pathlib.Path(options.input_file).read_text("utf-8").splitlines()
    num_joined = 0
    for text, line, of_pieces in zip(texts, words, pieces, strict=True):
        names = [feature["token"] for feature in line["features"]]
        parts = text.split("|||")
        cut = [tokenizer.basic_tokenizer.tokenize(part) for part in parts]
        expected = ["[CLS]"] + sum([[*part, "[SEP]"] for part in cut], [])
        assert names == expected
        features = iter(of_pieces["features"])
        for word in line["features"]:
            count = 1
            if word["token"] not in ("[CLS]", "[SEP]"):
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


def test_attention_maps_and_their_picture(options, tmp_path):
    picture = tmp_path / "attention.png"
    extraction.run(
        options.replace(
            attention=True,
            whole_words=True,
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


def test_cut_lines_are_told(options, caplog):
    extraction.run(options.replace(max_seq_length=12))
    assert "6 of 6 lines were longer than --max_seq_length=12" in caplog.text
    lines = json_lines_in(options.output_file)
    assert max(len(line["features"]) for line in lines) == 12


def test_a_left_to_right_model_needs_its_configuration_and_another_pooling(
    options, goldens, tmp_path, caplog
):
    folder = tmp_path / "model"
    write_released(goldens, folder, "bert_config.json")
    config = folder / "bert_config.json"
    change_json(config, left_to_right=True)
    extraction.run(options.replace(init_checkpoint=str(folder)))
    assert f"Give --bert_config_file={config}" in caplog.text
    options = options.replace(bert_config_file=str(config))
    with pytest.raises(ValueError, match="pooling is cls, .* Use mean or max"):
        extraction.run(options.replace(pooling="cls"))
    extraction.run(options.replace(pooling="mean"))
