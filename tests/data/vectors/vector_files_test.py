import json

import numpy as np
import pytest
import tensorflow as tf

from data.vectors import vector_files
from data.vectors.vector_files import LineVectors

LAYERS = [-1, "embeddings"]


def some_lines(counts=(3, 2, 4), attention=False):
    """Lines of random vectors of two layers, five wide."""
    rng = np.random.default_rng(1)
    lines = []
    for i, n in enumerate(counts):
        tokens = [f"\u5317{k}" for k in range(n)]
        maps = rng.random((2, 3, n, n), np.float32) if attention else None
        vectors = rng.normal(size=(n, 2, 5)).astype(np.float32)
        lines.append(LineVectors(i, tokens, vectors, tokens, maps))
    return lines


def write(path, file_format, lines, layers=LAYERS, **options):
    with vector_files.open_writer(
        str(path), file_format, layers=layers, **options
    ) as write_line:
        for line in lines:
            write_line(line)


def test_json_lines(tmp_path):
    lines = some_lines()
    write(tmp_path / "out", "jsonl", lines)
    texts = (tmp_path / "out").read_text("ascii").splitlines()
    for line, text in zip(lines, texts, strict=True):
        read = json.loads(text)
        assert list(read) == ["linex_index", "features"]
        assert read["linex_index"] == line.index
        for i, feature in enumerate(read["features"]):
            assert list(feature) == ["token", "layers"]
            assert feature["token"] == line.names[i]
            assert [list(x) for x in feature["layers"]] == [
                ["index", "values"]
            ] * 2
            assert [x["index"] for x in feature["layers"]] == LAYERS
            values = [x["values"] for x in feature["layers"]]
            np.testing.assert_allclose(values, line.vectors[i], atol=5.1e-7)


def test_json_is_rounded_as_python_rounds():
    # Powers of two over 128 have seven decimals: ties.
    values = np.concatenate(
        [
            np.random.default_rng(2).normal(size=20_000),
            np.arange(-500, 500) / 128,
            [0.0, -0.0, -1e-9, 1e-12, 12345.678, 3e7],
        ]
    ).astype(np.float32)
    line = LineVectors(0, ["a"], values[None, None], ["a"])
    read = json.loads(vector_files.to_json(line, [-1]))
    got = read["features"][0]["layers"][0]["values"]
    assert repr(got) == repr([round(float(x), 6) for x in values])


def test_a_mix_of_layers_names_all_of_them():
    (line,) = some_lines((1,))
    line = line._replace(vectors=line.vectors[:, :1])
    read = json.loads(vector_files.to_json(line, [[-1, "embeddings"]]))
    (layer,) = read["features"][0]["layers"]
    assert layer["index"] == [-1, "embeddings"]
    names = vector_files.layer_names([[-1, "embeddings"], -2])
    assert names == ["-1,embeddings", "-2"]


@pytest.mark.parametrize("attention", [False, True])
def test_npz_of_every_line(tmp_path, attention):
    lines = some_lines(attention=attention)
    write(tmp_path / "out", "npz", lines)
    with np.load(tmp_path / "out", allow_pickle=False) as read:
        assert len(read.files) == 1 + (4 if attention else 2) * len(lines)
        assert read["layers"].tolist() == ["-1", "embeddings"]
        for i, line in enumerate(lines):
            assert read[f"tokens_{i}"].tolist() == list(line.names)
            np.testing.assert_array_equal(read[f"vectors_{i}"], line.vectors)
            if attention:
                maps = read[f"attention_{i}"]
                np.testing.assert_array_equal(maps, line.attention)
                tokens = read[f"attention_tokens_{i}"]
                assert tokens.tolist() == list(line.tokens)


def test_npz_of_one_vector_a_line(tmp_path):
    lines = some_lines((1, 1, 1))
    write(tmp_path / "out", "npz", lines, pooled_shape=(3, 2, 5))
    with np.load(tmp_path / "out", allow_pickle=False) as read:
        assert sorted(read.files) == ["layers", "vectors"]
        assert read["vectors"].dtype == np.float32
        np.testing.assert_array_equal(
            read["vectors"], np.concatenate([line.vectors for line in lines])
        )


def test_records(tmp_path):
    lines = some_lines()
    path = tmp_path / "out"
    write(path, "tfrecord", lines)
    records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    for line, record in zip(lines, records, strict=True):
        found = tf.train.Example.FromString(record).features.feature
        assert found["linex_index"].int64_list.value == [line.index]
        names = [name.decode() for name in found["tokens"].bytes_list.value]
        assert names == list(line.names)
        assert found["layers"].bytes_list.value == [b"-1", b"embeddings"]
        values = np.array(found["values"].float_list.value, np.float32)
        shape = found["shape"].int64_list.value
        np.testing.assert_array_equal(values.reshape(shape), line.vectors)


@pytest.mark.parametrize("file_format", vector_files.FORMATS)
@pytest.mark.parametrize("pooled_shape", [None, (3, 2, 5)])
def test_a_file_appears_whole_or_not(tmp_path, file_format, pooled_shape):
    def broken():
        yield from some_lines((1, 1))
        raise ValueError("the third line")

    (tmp_path / "out").write_text("before")
    with pytest.raises(ValueError, match="the third line"):
        write(
            tmp_path / "out", file_format, broken(), pooled_shape=pooled_shape
        )
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_text() == "before"
