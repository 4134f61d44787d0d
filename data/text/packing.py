"""How token ids become one input row: [CLS] a [SEP] b [SEP], then padding."""

import random
from collections.abc import Sequence


def truncate_seq_pair(
    tokens_a: list[int],
    tokens_b: list[int],
    max_num_tokens: int,
    rng: random.Random,
) -> None:
    """Shortens a pair in place until both fit together.

    The longer one (b if equal) loses one token at a time, at its front or
    its back with equal chance, so that neither end is always the lost one.

    Args:
      tokens_a: first sequence.
      tokens_b: second sequence, may be empty.
      max_num_tokens: tokens both may have together.
      rng: one `random()` is drawn for each token lost.

    Source: truncate_seq_pair in create_pretraining_data.py.
    """
    while len(tokens_a) + len(tokens_b) > max_num_tokens:
        longer = tokens_a if len(tokens_a) > len(tokens_b) else tokens_b
        longer.pop(0 if rng.random() < 0.5 else -1)


def truncate_longest_first(
    tokens_a: list[int], tokens_b: list[int], max_num_tokens: int
) -> int:
    """Shortens a pair in place, at the ends, until both fit together.

    The longer one (b if equal) loses its last token, one at a time: a token
    of the shorter text says more of it than one of the longer.

    Args:
      tokens_a: first sequence.
      tokens_b: second sequence, may be empty.
      max_num_tokens: tokens both may have together.

    Returns:
      How many tokens were lost.

    Source: _truncate_seq_pair in run_classifier.py.
    """
    num_lost = max(0, len(tokens_a) + len(tokens_b) - max_num_tokens)
    for _ in range(num_lost):
        longer = tokens_a if len(tokens_a) > len(tokens_b) else tokens_b
        longer.pop()
    return num_lost


def truncate_first(
    tokens_a: list[int], tokens_b: list[int], max_num_tokens: int
) -> int:
    """Shortens the first of a pair in place, at its end, until both fit.

    Args:
      tokens_a: first sequence, such as an article.
      tokens_b: second sequence, such as a question on it; it is cut only if
        it does not fit alone.
      max_num_tokens: tokens both may have together.

    Returns:
      How many tokens were lost.
    """
    num_lost = max(0, len(tokens_a) + len(tokens_b) - max_num_tokens)
    del tokens_a[max(0, len(tokens_a) - num_lost) :]
    del tokens_b[max_num_tokens:]
    return num_lost


def add_special_tokens(
    tokens_a: list[int], tokens_b: list[int], *, cls_id: int, sep_id: int
) -> tuple[list[int], list[int]]:
    """Joins one or two sequences to a row.

    Args:
      tokens_a: first sequence.
      tokens_b: second sequence; empty for a row of one.
      cls_id: id of [CLS].
      sep_id: id of [SEP].

    Returns:
      The row, `[CLS] a [SEP] b [SEP]` or `[CLS] a [SEP]`, and its segment
      ids: 0 up to and with the first [SEP], 1 behind it.

    Source: create_instances_from_document in create_pretraining_data.py.
    """
    first = [cls_id, *tokens_a, sep_id]
    second = [*tokens_b, sep_id] if tokens_b else []
    return first + second, [0] * len(first) + [1] * len(second)


def pad(values: Sequence[float], length: int) -> list[float]:
    """Fills values up with zeros behind them."""
    return [*values, *[0] * (length - len(values))]
