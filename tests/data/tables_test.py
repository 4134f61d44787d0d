import pytest

from data import tables


def test_the_first_column_is_left_and_the_others_are_right():
    rows = [["step", "f1"], [10, 0.123456789], ["a\tb", None]]
    assert tables.aligned(rows) == "step        f1\n10    0.123457\na b"


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        tables.aligned([["a", "b"], ["c"]])
