"""Batches through a model: their order, and what is computed once."""

import time

import pytest

from training.inference import in_order


def test_outputs_are_in_the_order_of_the_rows_and_the_longest_are_first():
    batches, told = [], []

    def compute(rows):
        batches.append(rows)
        return [row.upper() for row in rows]

    rows = ["abc", "abcdefghi", "a", "ihgfedcba", "abcde"]
    outputs = in_order(
        rows, compute, length=len, batch_size=2, done=told.append
    )
    assert outputs == [row.upper() for row in rows]
    # Two may be computed at the same time.
    batches.sort(key=lambda rows: -len(rows[0]))
    assert batches == [["abcdefghi", "ihgfedcba"], ["abcde", "abc"], ["a"]]
    assert told == [2, 2, 1]


def test_a_batch_has_more_rows_if_they_are_short():
    batches = []

    def compute(rows):
        batches.append(rows)
        return rows

    rows = [10, *[5] * 7, *[4] * 3, *[1] * 30]
    outputs = in_order(
        rows, compute, length=int, batch_size=2, longest=10, done=None
    )
    assert outputs == rows
    batches.sort(key=lambda rows: (-rows[0], -len(rows)))
    # 20 numbers at most: two of 10, four of 5, twenty of 1. A further row is
    # taken from 85 % of the longest on, so that no 4 is beside a 5.
    wanted = [(10, 2), (5, 4), (5, 2), (4, 3), (1, 20), (1, 10)]
    assert [(rows[0], len(rows)) for rows in batches] == wanted


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_after_an_interrupt_or_error_no_further_batch_is_begun(error):
    begun = []

    def compute(rows):
        begun.append(rows)
        time.sleep(0.01)
        if error is MemoryError:
            raise MemoryError(rows[0])
        return rows

    def interrupt(number):
        raise KeyboardInterrupt(999)

    with pytest.raises(error, match="999"):  # the longest is the first
        in_order(range(1000), compute, length=int, batch_size=1, done=interrupt)
    assert len(begun) < 100
