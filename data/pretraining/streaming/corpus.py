r"""Divides text files of any size into blocks of whole documents.

    scan_file: one pass that checks every byte -> blocks
    read_block: one block in memory -> documents

The scan finds unreadable text before the work starts. Only `\n` ends a line; a
line of white space ends a document.
"""

import io
import itertools
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import google_crc32c

from data.storage import files

# Differs from the original: longer lines are refused and longer documents
# divided, because the memory of a process is bounded.
# No text has longer sentences.
MAX_LINE_BYTES = 4 << 20
# A longer document continues in another block.
MAX_BLOCK_BYTES = 8 << 20
_CHUNK_BYTES = 1 << 20


class Block(NamedTuple):
    """Some consecutive documents of a file, from byte `start` to `end`.

    `number` is the number of the first document in the corpus, from 0. All
    blocks of a divided document have its number; `num_documents` counts
    documents and parts of documents. `crc32c` is the bytes' checksum.
    """

    path: str
    start: int
    end: int
    number: int
    num_documents: int
    crc32c: int


class FileScan(NamedTuple):
    """The result of scanning a file.

    `facts` are name, bytes, documents and checksum, as the manifest has them.
    `blocks` are numbered from the start of the file; empty if there is no text.
    """

    facts: dict[str, Any]
    blocks: tuple[Block, ...]


def scan_file(path: str, block_bytes: int) -> FileScan:
    """Divides a file into blocks and checks that all of it can be read.

    A block of `block_bytes` ends at the end of the document, one of
    `MAX_BLOCK_BYTES` at the end of the line. Raises ValueError if a line is not
    UTF-8 or too long, and names the line.
    """
    # Differs from the original: a document ends with its file, because files
    # are read independently.
    blocks: list[Block] = []
    checksum = block_checksum = start = position = 0
    num_documents = number = 0  # number: the first document of the block
    in_document = False

    def end_block() -> None:
        count = num_documents - number
        place = path, start, position
        blocks.append(Block(*place, number, count, block_checksum))

    for place, line in enumerate(_lines(path), start=1):
        is_text = _has_text(line, path, place)
        if is_text:
            limit = MAX_BLOCK_BYTES if in_document else block_bytes
            if num_documents > number and position - start >= limit:
                end_block()
                block_checksum, start = 0, position
                number = num_documents - in_document
            num_documents += not in_document
        in_document = is_text
        position += len(line)
        checksum = google_crc32c.extend(checksum, line)
        block_checksum = google_crc32c.extend(block_checksum, line)
    if num_documents > number:
        end_block()
    facts = {
        "name": os.path.basename(path),
        "bytes": position,
        "documents": num_documents,
        "crc32c": f"{checksum:08x}",
    }
    return FileScan(facts, tuple(blocks))


def read_block(block: Block) -> Iterator[tuple[int, list[str]]]:
    """Yields the number in the corpus and the lines of each document.

    Blank lines are left out. Raises ValueError if the file was changed after
    the scan.
    """
    with files.open_read(block.path) as file:
        file.seek(block.start)
        data = file.read(block.end - block.start)
    if google_crc32c.value(data) != block.crc32c:
        raise ValueError(
            f"{block.path} was changed while it was read; start again."
        )
    text = data.decode("utf-8")
    if not block.start:
        text = text.removeprefix("\ufeff")  # as `files.decode_line`
    lines = map(str.strip, text.replace("\r", "").split("\n"))
    groups = itertools.groupby(lines, bool)
    documents = (list(group) for has_text, group in groups if has_text)
    yield from enumerate(documents, block.number)


def _lines(path: str) -> Iterator[bytes]:
    """Yields lines with their line ends; only the start of an overlong one."""
    files.require_file(path, "text")
    rest = b""
    with files.open_read(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            lines = list(io.BytesIO(rest + chunk))
            rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
            yield from lines
            if len(rest) > MAX_LINE_BYTES:
                break
    if rest:
        yield rest


def _has_text(line: bytes, path: str, number: int) -> bool:
    """Whether a line has more than white space; refuses unreadable ones."""
    if len(line) > MAX_LINE_BYTES + line.endswith(b"\n"):
        raise ValueError(
            f"{path}, line {number} has more than {MAX_LINE_BYTES:,} bytes; "
            "expected one sentence on each line. Break it into sentences, or "
            "into paragraphs and pass --split_sentences."
        )
    return bool(files.decode_line(line, path, number).strip())
