import re

import pytest

from data.tasks import rows
from data.tasks.rows import Column, Row
from tests.data.tasks.fixtures import write_files


@pytest.fixture
def write(tmp_path):
    return lambda data: write_files(tmp_path, {"t.tsv": data}) + "/t.tsv"


def cells(path, **options):
    return [row.cells for row in rows.read_table(path, **options)]


def test_quotes_are_ordinary_unless_asked_for(write):
    path = write('a\tb\n"x\ty"\n')
    assert cells(path) == [['"x', 'y"']]
    path = write('a,b\n"x, ""y""\n z",2\n')
    assert cells(path, delimiter=",", quotechar='"') == [['x, "y"\n z', "2"]]


def test_a_row_of_several_lines_has_the_number_of_the_first(write):
    path = write('a,b\n"x\n\ny",2\nz,3\n')
    found = rows.read_table(path, delimiter=",", quotechar='"')
    assert [(row.line, row.number) for row in found] == [(2, 1), (5, 2)]


@pytest.mark.parametrize("quotechar", [None, '"'])
def test_byte_order_mark_and_carriage_returns_are_dropped(write, quotechar):
    path = write(b"\xef\xbb\xbfa\tb\r\nx\ty\r\n\r\n")
    (row,) = rows.read_table(path, quotechar=quotechar)
    assert row == Row(path, 2, 1, ("a", "b"), ["x", "y"])


@pytest.mark.parametrize("quotechar", [None, '"'])
def test_a_very_long_cell_is_read(write, quotechar):
    path = write("a\n" + "x" * 200_000 + "\n")
    assert cells(path, quotechar=quotechar) == [["x" * 200_000]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a\tb\nx\n", "1 columns, expected 2 .*; is the line empty, or a tab"),
        ("a\tb\nx\ty\tz\n", "3 columns, expected 2 as in the first line"),
        ("a\tb\n\nx\ty\n", "0 columns, expected 2 .*; is the line empty"),
        (b"a\tb\nx\t\xe4\n", "byte 3 of the line is 0xe4, which is not"),
    ],
)
def test_a_wrong_row_is_an_error_with_its_place(write, data, message):
    with pytest.raises(ValueError, match=f"^/.*t.tsv, line 2: {message}"):
        cells(write(data))


def test_an_open_quote_is_an_error(write):
    path = write('a,b\nx,"y\nz\n')
    with pytest.raises(ValueError, match="t.tsv, lines 2 to 3: .*to be closed"):
        cells(path, delimiter=",", quotechar='"')


@pytest.mark.parametrize("quotechar", [None, '"'])
def test_broken_and_empty_rows_are_left_out_where_asked_for_and_counted(
    write, caplog, quotechar
):
    path = write("a\tb\n1\t2\n\nx\n3\t4\ny\tz\tz\n\n")
    found = list(rows.read_table(path, quotechar=quotechar, skip_broken=True))
    assert [(row.line, row.number, row.cells) for row in found] == [
        (2, 1, ["1", "2"]),
        (5, 4, ["3", "4"]),
    ]
    assert f"{path}: 3 rows without 2 columns are left out" in caplog.text
    assert "; the first: line 3." in caplog.text


def test_an_empty_line_is_no_header(write):
    with pytest.raises(ValueError, match="line 1: 0 columns, expected 1"):
        cells(write("\na\tb\n1\t2\n"), skip_broken=True)


def test_a_column_is_found_by_name_then_by_number():
    row = Row("t", 1, 0, ("a", "b"), ["x", "y"])
    assert row.value(Column("b", 0)) == "y"
    assert row.value(Column("c", 0)) == "x"
    assert row.value(Column.parse("-1")) == "y"
    assert not row.has(Column("c", 2)) and not row.has(Column("c"))
    assert row.has(Column("c", -2)) and not row.has(Column("c", -3))


def yes_or_no(row, column):
    return row.label(column, ("yes", "no"))


@pytest.mark.parametrize(
    ("read", "column", "message"),
    [
        (Row.text, Column("c"), "there is no column 'c'; it has a, b. Rename"),
        (Row.text, Column("c", 5), "there is no column 'c' (or 5); it has"),
        (Row.text, Column(None, 9), "there is no column 9; it has a, b"),
        (Row.text, Column("b"), "column 'b' is 3, expected a text"),
        (Row.float, Column("a"), "column 'a' is 'x', expected a number"),
        (yes_or_no, Column("a", 0), "column 'a' (or 0) is 'x', expected one"),
    ],
)
def test_a_wrong_cell_is_an_error_with_its_place(read, column, message):
    with pytest.raises(ValueError, match=f"^t, line 7: {re.escape(message)}"):
        read(Row("t", 7, 6, ("a", "b"), ["x", 3]), column)


@pytest.mark.parametrize("value", ["nan", "inf", "", None, "1,5", "1_000"])
def test_what_is_no_finite_number_is_an_error(value):
    row = Row("t", 7, 6, ("a",), [value])
    with pytest.raises(ValueError, match="line 7: column 'a' is .*a number"):
        row.float(Column("a"))


def test_of_many_labels_ten_are_named():
    shown = rows.describe_labels([str(i) for i in range(17)])
    assert shown == "one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... (17 in all)"


def test_labels_are_in_the_order_of_their_numbers_then_of_their_letters():
    found = ["b", "10", "2", "a", "2"]
    assert rows.sorted_labels(found) == ("2", "10", "a", "b")
    assert rows.sorted_labels(["1", "-1", "0"]) == ("-1", "0", "1")


@pytest.mark.parametrize("other", ["yes ", "Yes", "ye s", "YES\xa0"])
def test_labels_of_other_case_or_white_space_are_warned_of(caplog, other):
    rows.sorted_labels(["yes", "yes!", "1", "01", "1.0"])
    assert not caplog.messages
    found = rows.sorted_labels(["no", "yes", other, "yes"])
    assert {*found} == {"no", "yes", other}
    assert "in case or white space alone are other labels" in caplog.text


def test_json_lines(write):
    path = write('\ufeff{"a": "x", "b": 3}\r\n\n{"a": [1]}\n')
    assert [row[1:] for row in rows.read_json_lines(path)] == [
        (1, 0, ("a", "b"), ("x", 3)),
        (3, 2, ("a",), ([1],)),
    ]
    assert list(map(rows.label_text, ["x", 3, True])) == ["x", "3", "true"]


@pytest.mark.parametrize(
    ("line", "message"),
    [("{", "Expecting property name"), ("[1]", "a list.; expected one on")],
)
def test_a_line_that_is_no_object_is_an_error(write, line, message):
    with pytest.raises(ValueError, match=f"line 2: no JSON object .{message}"):
        list(rows.read_json_lines(write("{}\n" + line + "\n")))
