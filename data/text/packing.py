"""How token ids become one input row: [CLS] a [SEP] b [SEP], then padding.

Two files make the same rows from arrays, because the lists here take 8 times
as long for thousands of rows: pretraining/streaming/pairs.py, squad/windows.py.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

# The model's inputs: wordpieces, 1 = token and 0 = padding, and segments.
INPUTS = ("input_ids", "input_mask", "segment_ids")
_Token = TypeVar("_Token")


def split_pair(line: str) -> tuple[str, str | None]:
    """Splits a line `A ||| B` into A and B; any other line is A, and B None.

    Source: read_examples in extract_features.py.
    """
    first, bars, second = line.rpartition(" ||| ")
    return (first, second) if bars else (line, None)


def truncate_seq_pair(
    tokens_a: list[int],
    tokens_b: list[int],
    max_num_tokens: int,
    rng: random.Random,
) -> None:
    """Shortens a pair in place until both sequences fit together.

    The longer sequence (b if equal) loses one token at a time, at its front or
    its back with equal probability: one `rng.random()` for each token lost.

    Source: truncate_seq_pair in create_pretraining_data.py.
    """
    while len(tokens_a) + len(tokens_b) > max_num_tokens:
        longer = tokens_a if len(tokens_a) > len(tokens_b) else tokens_b
        longer.pop(0 if rng.random() < 0.5 else -1)


def truncate_ends(
    tokens_a: list[int],
    tokens_b: list[int],
    max_num_tokens: int,
    cut: str = "longest",
) -> int:
    """Shortens a pair at its ends until both fit; returns the tokens lost.

    `cut` is `longest`: the longer sequence (b if equal) loses its last token,
    one at a time; or `first`: the first one loses tokens, and the second, such
    as a question on an article, only if it does not fit alone.

    Source: _truncate_seq_pair in run_classifier.py.
    """
    num_lost = max(0, len(tokens_a) + len(tokens_b) - max_num_tokens)
    # What the first keeps at least, if it has as many.
    least = {"longest": (max_num_tokens + 1) // 2, "first": 0}[cut]
    del tokens_a[max(max_num_tokens - len(tokens_b), least) :]
    del tokens_b[max_num_tokens - len(tokens_a) :]
    return num_lost


def add_special_tokens(
    tokens_a: Sequence[_Token],
    tokens_b: Sequence[_Token],
    cls_id: _Token,
    sep_id: _Token,
    is_pair: bool | None = None,
) -> tuple[list[_Token], list[int]]:
    """Joins one or two sequences to a row.

    Returns the row, `[CLS] a [SEP] b [SEP]` or, without `is_pair` (default: if
    b is not empty), `[CLS] a [SEP]`; and its segment ids: 0 up to the first
    [SEP], 1 after it.

    Source: create_instances_from_document in create_pretraining_data.py.
    """
    first = [cls_id, *tokens_a, sep_id]
    if is_pair is None:
        is_pair = bool(tokens_b)
    second = [*tokens_b, sep_id] if is_pair else []
    return first + second, [0] * len(first) + [1] * len(second)


def pad(values: Sequence[float], length: int) -> list[float]:
    """Adds zeros after values, up to a length."""
    return [*values, *[0] * (length - len(values))]


def pad_batch(
    rows: Sequence[tuple[Sequence[int], Sequence[int]]],
    length: int,
    batch_size: int | None = None,
) -> dict[str, np.ndarray]:
    """Makes a batch of rows of (ids, segment ids) of different lengths.

    `length` S is at least the longest row's. Empty rows fill the batch up to
    `batch_size` B; None = the number of rows. Returns int32 [B, S]:
    `input_ids`, `input_mask` (1 = token, 0 = padding), `segment_ids`.
    """
    batch = np.zeros((3, batch_size or len(rows), length), np.int32)
    for i, (ids, segment_ids) in enumerate(rows):
        batch[:, i, : len(ids)] = ids, [1] * len(ids), segment_ids
    return dict(zip(INPUTS, batch, strict=True))
