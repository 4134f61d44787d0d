"""Vocabulary files: reading as the original did, and refusing what is none."""

import pytest
from absl import logging

from data.text import vocabulary


def write(folder, content):
    path = folder / "vocab.txt"
    path.write_bytes(content)
    return str(path)


def test_line_number_is_the_id_and_white_space_is_dropped(tmp_path):
    path = write(tmp_path, "[PAD]\n  the \nd\u00e9j\u00e0\u2028\n".encode())
    assert vocabulary.load_vocab(path) == {"[PAD]": 0, "the": 1, "déjà": 2}


def test_last_line_counts_without_a_newline(tmp_path):
    assert vocabulary.load_vocab(write(tmp_path, b"a\nb")) == {"a": 0, "b": 1}


def test_only_line_feeds_end_a_line(tmp_path):
    path = write(tmp_path, "a\u2028b\nc\x0cd\r\n".encode())
    assert list(vocabulary.load_vocab(path)) == ["a\u2028b", "c\x0cd"]


def test_later_duplicate_counts_and_is_reported(tmp_path, monkeypatch):
    warnings = []
    monkeypatch.setattr(
        logging, "warning", lambda text, *args: warnings.append(text % args)
    )
    path = write(tmp_path, b"a\nb\nc\nb\na\n")
    assert vocabulary.load_vocab(path) == {"a": 4, "b": 3, "c": 2}
    assert warnings == [
        f"{path}: 2 of 5 lines repeat an earlier token, such as 'a' with the "
        "ids 0 and 4; the last id counts."
    ]


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="vocab.txt: no such text file"):
        vocabulary.load_vocab(str(tmp_path / "vocab.txt"))


def test_empty_file(tmp_path):
    with pytest.raises(ValueError, match="is empty; expected a vocabulary"):
        vocabulary.load_vocab(write(tmp_path, b""))


def test_file_that_is_not_utf8(tmp_path):
    with pytest.raises(
        ValueError, match="line 2: byte 2 .* 0xe9, which is not"
    ):
        vocabulary.load_vocab(write(tmp_path, b"a\nd\xe9j\n"))


def test_missing_special_tokens_are_named():
    with pytest.raises(
        ValueError, match=r"v\.txt has no \[CLS\], \[MASK\] among its 2 tokens"
    ):
        vocabulary.require_tokens(
            {"[PAD]": 0, "[SEP]": 1}, ["[CLS]", "[SEP]", "[MASK]"], "v.txt"
        )
    vocabulary.require_tokens({"[PAD]": 0}, ["[PAD]"], "v.txt")


def test_written_vocabulary_reads_back(tmp_path):
    path = str(tmp_path / "new" / "vocab.txt")
    vocabulary.write_vocab(path, ["[PAD]", "é", "##s"])
    assert vocabulary.load_vocab(path) == {"[PAD]": 0, "é": 1, "##s": 2}
