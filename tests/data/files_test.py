"""What the one place that touches files promises."""

import os

import pytest
import tensorflow as tf

from data import files


def test_patterns_are_expanded_in_their_order(tmp_path):
    for name in ("b.txt", "a.txt", "c.tsv"):
        (tmp_path / name).write_text("")
    found = files.expand_patterns(f"{tmp_path}/c.tsv, {tmp_path}/*.txt")
    assert [os.path.basename(path) for path in found] == [
        "c.tsv",
        "a.txt",
        "b.txt",
    ]


def test_brackets_and_half_written_files(tmp_path):
    # A folder `run[1]` is no glob; what a killed writer left is no input.
    folder = tmp_path / "run[1]"
    folder.mkdir()
    for name in ("a.txt", "a.txt.incomplete-77"):
        (folder / name).write_text("")
        (tmp_path / name).write_text("")
    path = str(folder / "a.txt")
    assert files.expand_patterns(path) == [path]
    assert files.expand_patterns(f"{tmp_path}/a*") == [f"{tmp_path}/a.txt"]


def test_an_output_that_is_an_input_is_refused(tmp_path):
    path = str(tmp_path / "a")
    with pytest.raises(ValueError, match="a is an input, too"):
        files.check_outputs([path], [path])
    with pytest.raises(ValueError, match="a is another output, too"):
        files.check_outputs([], [path, path])
    with pytest.raises(OSError, match="--output_file: /proc/x cannot be wri"):
        files.check_outputs([], ["/proc/x/a"])


@pytest.mark.parametrize(
    ("patterns", "message"),
    [("/no/such*", "--x: no file matches '/no/such"), (" ,", "--x is empty")],
)
def test_what_matches_nothing_is_an_error(patterns, message):
    with pytest.raises(FileNotFoundError, match=message):
        files.expand_patterns(patterns, flag="x")


def test_only_newlines_end_a_line(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("\ufeffa\u2028b\x0cc\nd\n\ne".encode())
    assert list(files.read_lines(str(path))) == ["a\u2028b\x0cc", "d", "", "e"]


def test_undecodable_text_names_file_line_and_byte(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("gut\nschön\n".encode("latin-1"))
    with pytest.raises(
        ValueError, match="latin.txt, line 2: byte 4 .* 0xf6.*iconv"
    ):
        list(files.read_lines(str(path)))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent: no such text file"):
        list(files.read_lines(str(tmp_path / "absent")))
    with pytest.raises(FileNotFoundError, match="no such text file"):
        list(files.read_lines(str(tmp_path)))


def write(path, text):
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(text)


def test_files_appear_together(tmp_path):
    paths = [str(tmp_path / "new/a"), str(tmp_path / "new/b")]
    with files.whole_files(paths) as temporary:
        for path in temporary:
            write(path, "x")
        assert not any(map(os.path.exists, paths))
    assert sorted(os.listdir(tmp_path / "new")) == ["a", "b"]


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "a"
    path.write_text("before")
    with pytest.raises(KeyError):
        with files.whole_files([str(path)]) as (temporary,):
            write(temporary, "half")
            raise KeyError
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["a"]


def test_a_full_disk_says_where(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(OSError, match="cannot write .*/a: .*full.*free space"):
        with files.whole_files([str(path)]):
            raise tf.errors.ResourceExhaustedError(None, None, "disk full")
    assert os.listdir(tmp_path) == []
