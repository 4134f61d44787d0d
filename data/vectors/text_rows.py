"""Reads texts, converts them to rows of the model, and rows to batches.

Axes: B rows of a batch, S wordpieces.
"""

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from data.storage import files
from data.tasks import rows as tables
from data.tasks.rows import Column
from data.tasks.table_files import TableFiles
from data.text import packing
from data.text.tokenization import FullTokenizer

# Rows are sorted by length within this many batches, and their results are in
# memory: 256 MB of float32.
_BATCHES_OF_WINDOW = 100
_NUMBERS_OF_WINDOW = 1 << 26
_TABLES = (".tsv", ".csv", ".jsonl")
# As wordpieces of `RowMaker`: the token, its word, and whether it begins it.
_CLS, _SEP = (("[CLS]", "[CLS]", True), ("[SEP]", "[SEP]", True))


class TextRow(NamedTuple):
    """One line as an input row of the model.

    Attributes:
      index: index of the line in the file.
      tokens: wordpieces with [CLS] and [SEP].
      input_ids: ids of the tokens.
      segment_ids: 0 = `[CLS] a [SEP]`, 1 = `b [SEP]`.
      words: words and punctuation of `BasicTokenizer`, and [CLS] and [SEP].
      word_ids: index of each wordpiece's word.
      num_lost: number of wordpieces that did not fit. The last word may lack
        some of its wordpieces.
    """

    index: int
    tokens: list[str]
    input_ids: list[int]
    segment_ids: list[int]
    words: list[str]
    word_ids: list[int]
    num_lost: int


def count_lines(path: str) -> int:
    """Counts the lines, at least 1, of a text file; ValueError if not UTF-8."""
    num_lines = sum(1 for _ in files.read_lines(path))
    if not num_lines:
        raise ValueError(f"{path} is empty; expected a text on each line.")
    return num_lines


def read_texts(path: str, column: str = "") -> Iterator[str]:
    """Yields the text of each line, or of each row of a tsv, csv or jsonl file.

    `column` is the column of a table's texts; "" = `text`. An empty line is an
    empty text.
    """
    if os.path.splitext(path)[1].lower() not in _TABLES:
        if column:
            raise ValueError(
                f"--text_columns={column} is for {', '.join(_TABLES)} files, "
                f"but {path} has a text on each line; leave it out."
            )
        yield from files.read_lines(path)
        return
    files.require_file(path, "text")
    place = Column.parse(column or "text", "text_columns")
    table = TableFiles("", {"train": path}, _TABLES, [place]).read("train")
    yield from tables.converted(table, lambda row: row.text(place))


@dataclasses.dataclass(frozen=True)
class RowMaker:
    """Converts texts to rows of `max_seq_length` wordpieces at most, 3 or more.

    Source: `convert_examples_to_features` in extract_features.py.
    """

    tokenizer: FullTokenizer
    max_seq_length: int

    def line(self, line: str, index: int = 0) -> TextRow:
        """Makes the row of a line, `A` or `A ||| B`.

        That of an empty line is [CLS] [SEP].

        Source: `read_examples` in extract_features.py.
        """
        first, second = packing.split_pair(line.strip())
        return self.pair(first, second or "", index)

    def pair(self, first: str, second: str, index: int = 0) -> TextRow:
        """Makes the row of a pair of texts, of the first one if second is "".

        A single text is cut at its end. In a pair, the longer text loses its
        last wordpiece until both fit.
        """
        a, b = self._pieces(first), self._pieces(second)
        room = self.max_seq_length - (3 if b else 2)
        num_lost = packing.truncate_ends(a, b, room)
        pieces, segments = packing.add_special_tokens(a, b, _CLS, _SEP)
        tokens, words, begins = map(list, zip(*pieces, strict=True))
        ids = self.tokenizer.convert_tokens_to_ids(tokens)
        words = list(itertools.compress(words, begins))
        word_ids = [n - 1 for n in itertools.accumulate(begins)]
        return TextRow(index, tokens, ids, segments, words, word_ids, num_lost)

    def single(self, text: str) -> TextRow:
        """Makes the row of a text faster: without index, tokens and words."""
        ids, vocab = self.tokenizer.encode(text), self.tokenizer.vocab
        kept, segment_ids = packing.add_special_tokens(
            ids[: self.max_seq_length - 2], [], vocab["[CLS]"], vocab["[SEP]"]
        )
        num_lost = len(ids) + 2 - len(kept)
        return TextRow(0, [], kept, segment_ids, [], [], num_lost)

    def _pieces(self, text: str) -> list[tuple[str, str, bool]]:
        """Returns wordpieces, their words, and whether each begins its word."""
        return [
            (token, word, i == 0)
            for word, tokens in self.tokenizer.words(text)
            for i, token in enumerate(tokens)
        ]


def windows(
    rows: Iterable[TextRow], batch_size: int, cost: Callable[[TextRow], int]
) -> Iterator[list[TextRow]]:
    """Groups consecutive rows to windows whose results fit in memory.

    A window ends with the batch at which `cost`, the numbers that are computed
    for a row, reaches `_NUMBERS_OF_WINDOW`, summed over the rows, or after
    `_BATCHES_OF_WINDOW` batches. The size of each window but the last is a
    multiple of `batch_size`.
    """
    rows = iter(rows)
    window, total = [], 0
    while batch := list(itertools.islice(rows, batch_size)):
        window += batch
        total += sum(map(cost, batch))
        is_long = len(window) >= batch_size * _BATCHES_OF_WINDOW
        if is_long or total >= _NUMBERS_OF_WINDOW:
            yield window
            window, total = [], 0
    if window:
        yield window


def pad_rows(
    rows: Sequence[TextRow], *, batch_size: int, length: int
) -> dict[str, np.ndarray]:
    """Pads at most B rows to one shape, and adds empty rows.

    Returns int32 [B, S]: `input_ids`, `input_mask` (1 = real), `segment_ids`,
    `word_ids` (-1 = padding).
    """
    inputs = [(row.input_ids, row.segment_ids) for row in rows]
    batch = packing.pad_batch(inputs, length, batch_size)
    word_ids = np.full((batch_size, length), -1, np.int32)
    for i, row in enumerate(rows):
        word_ids[i, : len(row.word_ids)] = row.word_ids
    return batch | {"word_ids": word_ids}
