"""What the tests of several packages of data/ read."""

import pytest

from data.text.tokenization import FullTokenizer
from data.text.vocabulary import write_vocab


@pytest.fixture(scope="module")
def tokenizer(request, goldens, tmp_path_factory):
    """Uncased; of the `VOCAB` of the test's file, or of the goldens' one."""
    path = goldens / "vocab.txt"
    if tokens := getattr(request.module, "VOCAB", None):
        path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
        write_vocab(str(path), tokens)
    return FullTokenizer(str(path))


@pytest.fixture
def vocab_file(request, tmp_path):
    """A file of the `VOCAB` of the test's file."""
    path = str(tmp_path / "vocab.txt")
    write_vocab(path, request.module.VOCAB)
    return path
