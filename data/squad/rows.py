"""Windows as rows of tokens, and many rows as NumPy arrays.

Axes: N windows, S sequence.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from data.squad.windows import Window
from data.text.tokenization import FullTokenizer

_LABELS = ("start_positions", "end_positions", "is_impossible")


class Row(NamedTuple):
    """A window without its paragraph, small enough to be kept and sent.

    Attributes:
      tokens: int32, without padding.
      doc_offset: index of the text's first token.
      labels: start_position, end_position, is_impossible.
    """

    tokens: np.ndarray
    doc_offset: int
    labels: tuple[int, int, int]


def to_row(window: Window, tokenizer: FullTokenizer) -> Row:
    """Joins the question and the text of a window."""
    cls, sep = [tokenizer.vocab["[CLS]"]], [tokenizer.vocab["[SEP]"]]
    parts = (cls, window.query_ids, sep, window.doc_ids, sep)
    return Row(
        np.concatenate(parts, dtype=np.int32),
        window.doc_offset,
        (
            window.start_position or 0,
            window.end_position or 0,
            int(window.is_impossible),
        ),
    )


def columns(rows: Sequence[Row], max_seq_length: int) -> dict[str, np.ndarray]:
    """Returns the features of `windows.feature_specs`, without `unique_ids`."""
    lengths = np.array([len(row.tokens) for row in rows])
    offsets = np.array([row.doc_offset for row in rows])
    place = np.arange(max_seq_length)
    mask = place < lengths[:, None]
    input_ids = np.zeros(mask.shape, np.int32)
    input_ids[mask] = np.concatenate([row.tokens for row in rows])
    labels = np.array([row.labels for row in rows], np.int32)
    return {
        "input_ids": input_ids,
        "input_mask": mask.view(np.uint8),
        "segment_ids": (mask & (place >= offsets[:, None])).view(np.uint8),
        **dict(zip(_LABELS, labels.T[..., None], strict=True)),
    }
