"""What the tests of several packages of data/ read."""

import pytest

from data.text.tokenization import FullTokenizer


@pytest.fixture(scope="session")
def tokenizer(goldens):
    """The uncased tokenizer of the goldens' vocabulary."""
    return FullTokenizer(str(goldens / "vocab.txt"))
