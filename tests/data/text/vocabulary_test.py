import pytest

from data.text import vocabulary


def write(folder, content):
    path = folder / "vocab.txt"
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("[PAD]\n  the \nd\u00e9j\u00e0\u2028\n", ["[PAD]", "the", "déjà"]),
        ("a\nb", ["a", "b"]),  # without a newline at the end
        # Only line feeds end a line.
        ("a\u2028b\nc\x0cd\r\n", ["a\u2028b", "c\x0cd"]),
    ],
)
def test_line_number_is_the_id_and_white_space_is_dropped(
    tmp_path, content, tokens
):
    vocab = vocabulary.load_vocab(write(tmp_path, content.encode()))
    assert list(vocab.items()) == [(x, i) for i, x in enumerate(tokens)]


def test_later_duplicate_counts_and_is_reported(tmp_path, caplog):
    path = write(tmp_path, b"a\nb\nc\nb\na\n")
    assert vocabulary.load_vocab(path) == {"a": 4, "b": 3, "c": 2}
    assert (
        f"{path}: 2 of 5 lines repeat an earlier token, such as 'a' with the "
        "ids 0 and 4; the last id counts." in caplog.text
    )


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is empty; expected a vocabulary"):
        vocabulary.load_vocab(write(tmp_path, b""))


def test_missing_special_tokens_are_named():
    vocab, needed = {"[PAD]": 0, "[SEP]": 1}, ["[CLS]", "[SEP]", "[MASK]"]
    fault = r"v\.txt has no \[CLS\], \[MASK\] among its 2 tokens"
    with pytest.raises(ValueError, match=fault):
        vocabulary.require_tokens(vocab, needed, "v.txt")
    vocabulary.require_tokens(vocab, ["[PAD]"], "v.txt")
