"""What several tests of the streaming writer read."""

import pytest

from tests.data.pretraining.support import write_number_vocab


@pytest.fixture
def vocab(tmp_path):
    """The vocabulary of `write_corpus`, for up to 100 documents."""
    return write_number_vocab(tmp_path / "vocab.txt", 100)


@pytest.fixture
def out(tmp_path):
    """An empty folder for shards."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"
