"""Windows as arrays, which may wait on disk to be taken in another order.

Axes: E questions, N windows, S sequence.
"""

import itertools
import os
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from data.squad.windows import Window
from data.text.tokenization import FullTokenizer

_LABELS = ("start_positions", "end_positions", "is_impossible")


class Rows(NamedTuple):
    """The windows of some questions.

    Attributes:
      tokens: int32, the rows' tokens without padding, one row after the other.
      lengths: int32 [N], how many tokens a row has.
      doc_offsets: int32 [N], where in the row the text begins.
      labels: int32 [N, 3]: start_position, end_position, is_impossible.
      num_windows: int32 [E], of each question.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    doc_offsets: np.ndarray
    labels: np.ndarray
    num_windows: np.ndarray

    def columns(self, max_seq_length: int) -> dict[str, np.ndarray]:
        """The features of `windows.feature_specs` but `unique_ids`."""
        place = np.arange(max_seq_length)
        mask = place < self.lengths[:, None]
        input_ids = np.zeros(mask.shape, np.int32)
        input_ids[mask] = self.tokens
        segments = mask & (place >= self.doc_offsets[:, None])
        labels = np.split(self.labels, len(_LABELS), axis=1)
        return {
            "input_ids": input_ids,
            "input_mask": mask.view(np.uint8),
            "segment_ids": segments.view(np.uint8),
            **dict(zip(_LABELS, labels, strict=True)),
        }


def to_rows(
    questions: Sequence[Sequence[Window]], tokenizer: FullTokenizer
) -> Rows:
    """Lays the windows of questions out.

    Args:
      questions: the windows of each.
      tokenizer: with [CLS] and [SEP].

    Returns:
      All of them, in their order.
    """
    cls, sep = (
        np.array([tokenizer.vocab[token]], np.int32)
        for token in ("[CLS]", "[SEP]")
    )
    windows = list(itertools.chain.from_iterable(questions))
    parts = [np.zeros(0, np.int32)]
    for window in windows:
        parts += (cls, window.query_ids, sep, window.doc_ids, sep)
    labels = [
        (
            window.start_position or 0,
            window.end_position or 0,
            window.is_impossible,
        )
        for window in windows
    ]
    return Rows(
        np.concatenate(parts),
        np.array([window.num_tokens for window in windows], np.int32),
        np.array([window.doc_offset for window in windows], np.int32),
        np.array(labels, np.int32).reshape(-1, len(_LABELS)),
        np.array([len(windows) for windows in questions], np.int32),
    )


class RowsOnDisk:
    """Takes rows, and gives back those of any questions.

    Tokens lie in a temporary file; 20 bytes a window stay in memory. Use it as
    a context manager, which removes the file.

    Args:
      path: on a local disk, beside which the file lies; of any other storage
        it lies in the system's folder for such files.
    """

    def __init__(self, path: str):
        folder = os.path.dirname(path) or "."
        self._file = tempfile.TemporaryFile(
            dir=None if "://" in path else folder, prefix="windows-"
        )
        self._rows: list[Rows] = []
        self._all: Rows | None = None

    @property
    def num_examples(self) -> int:
        """The questions taken so far."""
        return sum(len(rows.num_windows) for rows in self._rows)

    def add(self, rows: Rows) -> None:
        """Takes the rows of some more questions.

        Raises:
          OSError: the disk is full.
        """
        self._file.write(rows.tokens.tobytes())
        self._rows.append(rows._replace(tokens=rows.tokens[:0]))

    def read(self, numbers: Sequence[int]) -> Rows:
        """Gives back the rows of questions; no `add` may follow.

        Args:
          numbers: of the questions, in the order in which they came.

        Returns:
          Their rows in the order of the numbers.
        """
        if self._all is None:
            self._begin_reading()
        windows, parts = [], []
        for number in numbers:
            first, last = self._windows[number]
            windows.append(np.arange(first, last))
            start, end = self._places[[first, last]].tolist()
            parts.append(os.pread(self._file.fileno(), end - start, start))
        windows = np.concatenate(windows)
        return Rows(
            np.frombuffer(b"".join(parts), np.int32),
            self._all.lengths[windows],
            self._all.doc_offsets[windows],
            self._all.labels[windows],
            self._all.num_windows[list(numbers)],
        )

    def _begin_reading(self) -> None:
        """Joins what is in memory."""
        self._file.flush()
        self._all = Rows(*map(np.concatenate, zip(*self._rows, strict=True)))
        self._rows.clear()
        ends = np.cumsum(self._all.num_windows)
        self._windows = np.stack([ends - self._all.num_windows, ends], axis=1)
        ends = np.cumsum(self._all.lengths, dtype=np.int64)
        self._places = np.array([0, *ends]) * self._all.tokens.itemsize

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()
