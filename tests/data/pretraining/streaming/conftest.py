"""What several tests of the streaming writer read."""

import pytest


@pytest.fixture
def vocab(tmp_path):
    """The vocabulary of `write_corpus`; document d's word has the id 5 + d."""
    tokens = "[PAD] [UNK] [CLS] [SEP] [MASK]".split()
    tokens += map(str, range(200))
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in tokens), "utf-8")
    return path


@pytest.fixture
def out(tmp_path):
    """An empty folder for shards."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"
