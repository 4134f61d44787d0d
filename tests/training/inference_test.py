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


def test_after_an_interrupt_no_further_batch_is_begun():
    begun = []

    def compute(rows):
        begun.append(rows)
        time.sleep(0.01)
        return rows

    def interrupt(number):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_order(range(1000), compute, length=int, batch_size=1, done=interrupt)
    assert len(begun) < 100


def test_after_an_error_no_further_batch_is_begun():
    begun = []

    def compute(rows):
        begun.append(rows)
        time.sleep(0.01)
        raise MemoryError(rows[0])

    with pytest.raises(MemoryError, match="999"):
        in_order(range(1000), compute, length=int, batch_size=1)
    assert len(begun) < 100
