"""The writer: the original's records, whole files, errors that help."""

import gzip
import json
import os
import pathlib
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.pretraining.exact import in_memory
from data.pretraining.exact.examples import PretrainingDataOptions
from data.pretraining.recipe import Recipe, make_tools
from data.pretraining.streaming import all_shards
from data.records import reading
from data.storage import files
from data.text.tokenization import FullTokenizer
from tests.data.pretraining.support import recipe_of
from tests.support.run_files import rows_in

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "old", "mill", "##s"]
LINE = st.text(st.characters(exclude_characters="\n", codec="utf-8"))
WRITTEN = ["in.txt", "out", "out.manifest.json", "vocab.txt"]


@pytest.fixture
def write(tmp_path, vocab_file):
    def write(text, outputs=("out",), vocab=vocab_file, **options):
        path = tmp_path / "in.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        paths = [str(tmp_path / output) for output in outputs]
        recipe = recipe_of(vocab, **options)
        return in_memory.write_pretraining_data([str(path)], paths, recipe)

    return write


@pytest.mark.parametrize("whole_words", [False, True])
def test_records_are_the_originals(goldens, tmp_path, whole_words):
    folder = goldens / "pretraining_data"
    outputs = [str(tmp_path / name) for name in ("a", "new_folder/b", "c")]
    recipe = recipe_of(goldens / "vocab.txt", do_whole_word_mask=whole_words)
    counts = in_memory.write_pretraining_data(
        [str(folder / "corpus.txt")], outputs, recipe
    )
    kind = "whole_word" if whole_words else "wordpiece"
    expected = rows_in(folder / f"{kind}_masking.tf_record")
    for i, output in enumerate(outputs):
        assert rows_in(output) == expected[i::3]
    assert counts["examples"] == len(expected)
    assert counts["tokens"] == sum(sum(r["input_mask"]) for r in expected)
    num_masked = sum(sum(r["masked_lm_weights"]) for r in expected)
    assert counts["masked"] == num_masked


@given(st.lists(LINE, max_size=8))
def test_only_blank_lines_part_documents(lines):
    with tempfile.TemporaryDirectory() as folder:
        vocab = pathlib.Path(folder, "vocab.txt")
        vocab.write_text("\n".join([*VOCAB, "a", "b"]))
        tokenizer = FullTokenizer(str(vocab))
        paths = [os.path.join(folder, name) for name in ("1.txt", "2.txt")]
        for path in paths:
            pathlib.Path(path).write_bytes(
                "".join(f"{line}\n" for line in ["a", *lines, "b"]).encode()
            )
        group = in_memory.read_documents(paths, make_tools(recipe_of(vocab)))
    # As the original: all files are one text, TensorFlow's reader drops
    # carriage returns, and blank is what has nothing but white space.
    expected = [[]]
    for line in ["a", *lines, "b"] * 2:
        line = line.replace("\r", "").strip()
        if not line:
            expected.append([])
        elif ids := tokenizer.encode(line):
            expected[-1].append(ids)
    assert [
        [group.slice(i, i + 1) for i in document]
        for document in group.documents
    ] == list(filter(None, expected))


@pytest.mark.parametrize("text", ["", "\n \n\t\n", "\u200b\n"])
def test_input_without_text_is_refused(write, tmp_path, text):
    message = f"--input_file: no text in {tmp_path}/in.txt; .* blank line"
    with pytest.raises(ValueError, match=message):
        write(text)
    assert not (tmp_path / "out").exists()


def test_a_manifest_of_earlier_records_is_replaced(
    write, tmp_path, vocab_file, caplog
):
    text = "old mill\n\nnew mills\n"
    (tmp_path / "in.txt").write_text(text)
    records = tmp_path / "out-00000-of-00001"
    all_shards.write_shards(
        [str(tmp_path / "in.txt")], [str(records)], recipe_of(vocab_file)
    )
    described = tmp_path / "out@1.manifest.json"
    before = described.read_bytes(), records.read_bytes()
    with pytest.raises(ValueError, match="in.txt, line 2: byte 5 of the line"):
        write(b"old\nmill\xff\n", [records.name])
    # Nor does another data set of the name replace it, which is warned of.
    write(text)
    assert f"read {tmp_path}/out, not {tmp_path}/out-*," in caplog.text
    assert (described.read_bytes(), records.read_bytes()) == before
    write(text, [records.name])
    manifest = json.loads(described.read_text())
    (shard,) = manifest["shards"]
    assert shard["file"] == records.name
    assert shard["counts"] == {
        "bytes": records.stat().st_size,
        "examples": manifest["counts"]["examples"],
    }
    assert manifest["vocab_size"] == len(VOCAB)
    # old, mill, [UNK], mill, ##s
    assert manifest["counts"]["wordpieces"] == 5
    assert manifest["counts"]["unknown"] == 1


def test_records_through_a_pipe_have_no_manifest(write, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    # Opened for both, a pipe waits for nobody.
    with open(os.open(tmp_path / "pipe", os.O_RDWR), "rb", buffering=0) as pipe:
        write("old mills\n", ["pipe"])
        through = pipe.read(1 << 16)
    write("old mills\n")
    assert through == (tmp_path / "out").read_bytes()
    assert sorted(os.listdir(tmp_path)) == sorted([*WRITTEN, "pipe"])


def test_an_empty_last_line_of_a_vocabulary_is_no_random_token(
    write, tmp_path, vocab_file
):
    # `num_ids` does not count it, so that the model has no row for it.
    longer = tmp_path / "longer.txt"
    longer.write_text("\n".join([*VOCAB, "", ""]))
    options = {"mask_token_prob": 0.0, "random_token_prob": 1.0}
    for name, vocab in ("out", vocab_file), ("other", longer):
        write("old mills\nmill\n\nold mill old\n" * 9, [name], vocab, **options)
    rows = rows_in(tmp_path / "other")
    assert rows == rows_in(tmp_path / "out")
    assert max(max(row["input_ids"]) for row in rows) == len(VOCAB) - 1


def test_more_files_than_examples_are_refused(write, tmp_path):
    # Training takes an empty file for a damaged one.
    with pytest.raises(ValueError, match="--output_file names 99 files, .*few"):
        write("old mills\nmill\n", [f"out-{i}" for i in range(99)])
    assert sorted(os.listdir(tmp_path)) == ["in.txt", "vocab.txt"]


def test_an_output_is_written_over_no_input(write, tmp_path):
    for outputs, message in [
        ([f"../{tmp_path.name}/in.txt"], "in.txt is a file of --input_file, "),
        (["vocab.txt"], "vocab.txt is a file of --vocab_file"),
    ]:
        with pytest.raises(ValueError, match=message):
            write("old mill\n", outputs)
    assert sorted(os.listdir(tmp_path)) == ["in.txt", "vocab.txt"]


def test_a_full_disk_leaves_the_earlier_output(write, tmp_path, monkeypatch):
    write("old mill\n")
    before = (tmp_path / "out").read_bytes()
    # A device that refuses the first byte it should keep.
    monkeypatch.setattr(files, "open_write", lambda _: open("/dev/full", "wb"))
    monkeypatch.setattr(files, "check_writable", lambda *_: None)
    with pytest.raises(OSError, match="cannot write .*No space left on device"):
        write("old mill\n\nmill\n\nmills\n")
    assert (tmp_path / "out").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == WRITTEN


def test_too_few_predictions_are_reported(write, caplog):
    write("old mill\n", max_seq_length=512)
    # 512 * 0.15 = 76.8
    assert "--max_predictions_per_seq=10, but" in caplog.text
    assert "is 77; pass that instead" in caplog.text


@pytest.mark.slow
def test_novels_give_as_many_examples_as_the_original(real_data, tmp_path):
    (tmp_path / "novels.txt").write_bytes(
        gzip.decompress((real_data / "novels/novels_train.txt.gz").read_bytes())
    )
    options = PretrainingDataOptions(dupe_factor=5)
    counts = in_memory.write_pretraining_data(
        [str(tmp_path / "novels.txt")],
        [str(tmp_path / "out")],
        Recipe(options, str(real_data / "vocab/uncased/vocab.txt")),
    )
    assert counts["examples"] == 270_156
    assert reading.count_records(str(tmp_path / "out")) == 270_156
