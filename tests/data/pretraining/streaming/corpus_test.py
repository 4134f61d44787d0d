"""Blocks of text files: every document once, whatever the file looks like."""

import pathlib
import tempfile

import google_crc32c
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from data.pretraining.streaming import corpus
from tests.data.pretraining.support import lines_of

LINE = st.sampled_from(
    ["a", "b c", "“d”", "鐵 é", "\u200b", "e\rf", "g\u2028h", "\ufeffi", " j "]
)
BLANK = st.sampled_from(
    ["", " ", "\t", "\u3000", "\xa0 \u2003", "\x1c\x0b", "\x0c\x1f", "\r"]
    + ["\u2028", "\x85", " \u3000\r"]
)
TEXT = st.builds(
    lambda mark, lines, end: "\ufeff" * mark + "".join(lines) + end,
    st.booleans(),
    st.lists(
        st.builds("{}{}".format, LINE | BLANK, st.sampled_from(["\n", "\r\n"]))
    ),
    st.sampled_from(["", "z", "\u3000", "\r"]),
)


def documents_of(text):
    """The documents of a whole text, by one simple split."""
    documents = [[]]
    for line in text.removeprefix("\ufeff").replace("\r", "").split("\n"):
        if line.strip():
            documents[-1].append(line.strip())
        else:
            documents.append([])
    return [document for document in documents if document]


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@given(TEXT, st.integers(1, 20), st.integers(0, 30), st.integers(0, 60))
@example("\ufeff\n\na\n\nb", 1, 0, 0)  # a first line of nothing but a mark
@example("\ufeff", 1, 0, 0)
@example("\n \n\u3000", 20, 0, 0)  # no text
def test_blocks_have_the_documents_of_the_file(
    text, chunk_bytes, block_bytes, more_bytes
):
    max_block_bytes = block_bytes + more_bytes
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as f,
    ):
        patch.setattr(corpus, "_CHUNK_BYTES", chunk_bytes)
        patch.setattr(corpus, "MAX_BLOCK_BYTES", max_block_bytes)
        path = write(pathlib.Path(f, "text"), text)
        scan = corpus.scan_file(path, block_bytes)
        documents = lines_of(scan.blocks)
    data = text.encode()
    expected = documents_of(text)
    assert documents == dict(enumerate(expected))
    assert scan.facts == {
        "name": "text",
        "bytes": len(data),
        "documents": len(expected),
        "crc32c": f"{google_crc32c.value(data):08x}",
    }
    assert bool(scan.blocks) == bool(expected)
    # The blocks lie one behind the other, and all of the file is in them.
    ends = [block.end for block in scan.blocks]
    assert [block.start for block in scan.blocks] == [0, *ends][: len(ends)]
    assert not ends or ends[-1] == len(data)
    for block, after in zip(scan.blocks, scan.blocks[1:], strict=False):
        assert block.crc32c == google_crc32c.value(
            data[block.start : block.end]
        )
        assert data[block.end - 1 : block.end] == b"\n"
        assert block.end - block.start >= block_bytes
        # A document that continues in the next block was too long for one.
        if block.number + block.num_documents > after.number:
            assert block.end - block.start >= max_block_bytes


def test_a_block_ends_with_its_document(tmp_path):
    path = write(tmp_path / "a", "1\n1\n\n2\n2\n\n\n3\n")
    cut = [
        (block.start, block.end, block.number, block.num_documents)
        for block in corpus.scan_file(path, 5).blocks
    ]
    assert cut == [(0, 5, 0, 1), (5, 11, 1, 1), (11, 13, 2, 1)]


@pytest.mark.parametrize("chunk_bytes", [1, 5, 1 << 20])
@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"ab\n\nc\xffd\ne\n", "line 3: byte 2 of the line is 0xff"),
        (b"\xff", "line 1: byte 1 of the line is 0xff"),
        # A character cut by the end of its line, and by that of the file.
        (b"ab\nc\xe3\x80\nd\n", "line 2: byte 2 of the line is 0xe3"),
        (b"ab\nc\xe3\x80", "line 2: byte 2 of the line is 0xe3"),
    ],
)
def test_bad_utf8_is_refused_with_its_place(
    tmp_path, monkeypatch, text, place, chunk_bytes
):
    monkeypatch.setattr(corpus, "_CHUNK_BYTES", chunk_bytes)
    path = write(tmp_path / "a", text)
    with pytest.raises(ValueError, match=f"^{path}, {place}, .*`iconv -f"):
        corpus.scan_file(path, 0)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1 << 20])
def test_a_line_over_the_limit_is_refused_with_its_place(
    tmp_path, monkeypatch, chunk_bytes
):
    monkeypatch.setattr(corpus, "_CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(corpus, "MAX_LINE_BYTES", 10)
    path = write(tmp_path / "a", "x" * 10 + "\n\nab\n" + "y" * 10)
    assert corpus.scan_file(path, 0).facts["documents"] == 2
    for end in "", "\n", "\nz":
        path = write(tmp_path / "a", "x" * 10 + "\n\nab\n" + "y" * 11 + end)
        message = f"^{path}, line 4 has more than 10 bytes.*--split_sentences"
        with pytest.raises(ValueError, match=message):
            corpus.scan_file(path, 0)


def test_a_file_of_one_huge_line_is_refused_at_once(tmp_path, monkeypatch):
    # Holes read as zeros: 200 MB that take no disk. Only what the limit
    # needs is read.
    path = write(tmp_path / "a", "x\n\ny\n")
    with open(path, "r+b") as file:
        file.truncate(200_000_000)
    sizes = []

    def lines(path, inner=corpus._lines):
        for line in inner(path):
            sizes.append(len(line))
            yield line

    monkeypatch.setattr(corpus, "_lines", lines)
    with pytest.raises(ValueError, match=r"a, line 4 has more than 4,194,304"):
        corpus.scan_file(path, 0)
    assert sum(sizes) < 2 * corpus.MAX_LINE_BYTES


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text("a\n\nb\n\n"),  # shorter
        lambda path: path.write_text("a\n\nb\n\nX\n"),  # as long as before
        lambda path: path.write_bytes(b"a\n\nb\n\n\xff\n"),
    ],
)
def test_a_file_that_changed_since_its_scan_is_refused(tmp_path, change):
    path = tmp_path / "a"
    path.write_text("a\n\nb\n\nc\n")
    *unchanged, last = corpus.scan_file(str(path), 0).blocks
    change(path)
    assert lines_of(unchanged) == {0: ["a"], 1: ["b"]}
    with pytest.raises(ValueError, match=f"^{path} was changed while .*again"):
        list(corpus.read_block(last))


def test_what_is_added_to_a_file_after_its_scan_is_not_read(tmp_path):
    path = tmp_path / "a"
    path.write_text("a\n\nb")
    blocks = corpus.scan_file(str(path), 0).blocks
    path.write_text("a\n\nb\n\nc\n")
    assert lines_of(blocks) == {0: ["a"], 1: ["b"]}


def test_a_file_that_is_none_is_refused(tmp_path):
    for path in tmp_path / "none", tmp_path:
        with pytest.raises(FileNotFoundError, match=f"^{path}: no such text"):
            corpus.scan_file(str(path), 0)
