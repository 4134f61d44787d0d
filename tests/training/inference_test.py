"""Batches through a model: their order, and what is computed once."""

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
    assert batches == [["abcdefghi", "ihgfedcba"], ["abcde", "abc"], ["a"]]
    assert told == [2, 2, 1]
