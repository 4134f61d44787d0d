import bz2
import gzip
import lzma
import os
import pathlib
import stat

import pytest
import tensorflow as tf

from data.storage import files


def test_patterns_are_expanded_in_their_order(tmp_path):
    for name in ("b.txt", "a.txt", "c.tsv"):
        (tmp_path / name).write_text("")
    found = files.expand_patterns(f"{tmp_path}/c.tsv, {tmp_path}/*.txt")
    names = [os.path.basename(path) for path in found]
    assert names == ["c.tsv", "a.txt", "b.txt"]


def test_brackets_and_half_written_files(tmp_path):
    # A folder `run[1]` is no glob; what a killed writer left is no input, nor
    # is what describes the records.
    folder = tmp_path / "run[1]"
    folder.mkdir()
    waiting = os.path.basename(files.incomplete("a.txt", "77"))
    suffixes = files.MANIFEST_SUFFIX, files.TEXT_FOLDER_SUFFIX
    for name in ("a.txt", waiting, *(f"a.txt{x}" for x in suffixes)):
        (folder / name).write_text("")
        (tmp_path / name).write_text("")
    path = str(folder / "a.txt")
    assert files.expand_patterns(path) == [path]
    assert files.expand_patterns(f"{tmp_path}/a*") == [f"{tmp_path}/a.txt"]


@pytest.mark.parametrize(
    ("patterns", "named"),
    [
        ("/no/such*", r"/no/such\*"),
        (" ,", ""),
        ("out@2", "out-00001-of-00002"),  # one of two shards is there
        (".", "."),  # a folder
        ("*", "sub"),
    ],
)
def test_what_matches_nothing_is_told(tmp_path, monkeypatch, patterns, named):
    monkeypatch.chdir(tmp_path)
    files.write_text("out-00000-of-00002", "")
    (tmp_path / "sub").mkdir()
    message = f"--eval_file: no file matches '{named}' .*{tmp_path}.*; give"
    with pytest.raises(FileNotFoundError, match=message):
        files.expand_patterns(patterns, "eval_file")


def test_shards_are_named_as_tensorflow_does():
    assert files.expand_shards(" a, out@3 ,b@1") == [
        "a",
        "out-00000-of-00003",
        "out-00001-of-00003",
        "out-00002-of-00003",
        "b-00000-of-00001",
    ]
    # No number behind the last @: a path like any other.
    plain = ["me@home/a", "x@", "@3", "out@3.gz"]
    assert files.expand_shards(",".join(plain)) == plain
    assert files.expand_shards("a@99999")[-1] == "a-99998-of-99999"
    assert files.expand_shards(" ,") == []


@pytest.mark.parametrize("count", [0, 100_000])
def test_a_number_of_shards_out_of_range_is_refused(count):
    message = f": a@{count} asks for {count} shards, expected 1 to 99999"
    with pytest.raises(ValueError, match=f"--output_file{message}"):
        files.expand_shards(f"a@{count}")
    with pytest.raises(ValueError, match=f"--input_file{message}"):
        files.expand_patterns(f"a@{count}")


def test_shards_are_found_as_input(tmp_path):
    shards = files.expand_shards(f"{tmp_path}/out@3")
    for path in shards:
        files.write_text(path, "")
    assert files.expand_patterns(f"{tmp_path}/out@3") == shards
    # A file of that very name comes first.
    (tmp_path / "out@3").write_text("")
    assert files.expand_patterns(f"{tmp_path}/out@3") == [f"{tmp_path}/out@3"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        # Only newlines end a line.
        ("\ufeffa\u2028b\x0cc\nd\n\ne", ["a\u2028b\x0cc", "d", "", "e"]),
        # Carriage returns are dropped, as the original does.
        ("a\r\nb\rc\n\r\n", ["a", "bc", ""]),
    ],
)
def test_lines(tmp_path, text, lines):
    (tmp_path / "text").write_bytes(text.encode())
    assert list(files.read_lines(str(tmp_path / "text"))) == lines


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"a line\n"), "line 1: .*compressed: unpack it with"),
        (bz2.compress(b"a line\n"), "line 1: .*compressed: unpack it with"),
        (lzma.compress(b"a line\n"), "line 1: .*compressed: unpack it with"),
        ("\ufeffa line\n".encode("utf-16-le"), "line 1: .*is UTF-16: `iconv"),
        ("\ufeffa line\n".encode("utf-16-be"), "line 1: .*is UTF-16: `iconv"),
        # Only the beginning of a file says that it is UTF-16.
        (b"gut\n\xff\xfe bad\n", "line 2: byte 1 .*`iconv -f ENC"),
    ],
    ids=["gzip", "bzip2", "xz", "little", "big", "latin"],
)
def test_text_of_another_format_is_named(tmp_path, content, message):
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{path}, {message}"):
        list(files.read_lines(str(path)))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent: no such text file"):
        list(files.read_lines(str(tmp_path / "absent")))
    with pytest.raises(FileNotFoundError, match="no such text file"):
        list(files.read_lines(str(tmp_path)))


def test_files_appear_together(tmp_path):
    paths = [str(tmp_path / "new/a"), str(tmp_path / "new/b")]
    with files.whole_files(paths) as temporary:
        for path in temporary:
            pathlib.Path(path).write_text("x")
        assert not any(map(os.path.exists, paths))
    assert sorted(os.listdir(tmp_path / "new")) == ["a", "b"]


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "a"
    path.write_text("before")
    with pytest.raises(KeyError):
        with files.whole_files([str(path)]) as (temporary,):
            pathlib.Path(temporary).write_text("half")
            raise KeyError
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize(
    "error",
    [
        OSError("disk full"),
        tf.errors.ResourceExhaustedError(None, None, "disk full"),
    ],
)
def test_a_full_disk_says_where(tmp_path, error):
    with pytest.raises(OSError, match="cannot write .*/a: .*full.*free space"):
        with files.whole_files([str(tmp_path / "a")]):
            raise error
    assert os.listdir(tmp_path) == []


def test_an_error_between_two_files_says_which_one_changed(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    with pytest.raises(OSError, match=f"Changed there: {first};"):
        with files.whole_files([str(first), str(second)]) as temporary:
            for path in temporary:
                pathlib.Path(path).write_text("x")
            second.mkdir()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("is_there", [True, False])
def test_the_target_of_a_link_is_written(tmp_path, is_there):
    for name in ("here", "disk"):
        (tmp_path / name).mkdir()
    target = tmp_path / "disk/target"
    if is_there:
        target.write_text("before")
    (tmp_path / "here/link").symlink_to("../disk/target")
    link = str(tmp_path / "here/link")
    with files.whole_files([link]) as (temporary,):
        # On the target's disk, so that it can be renamed.
        assert os.path.dirname(temporary) == str(tmp_path / "disk")
        pathlib.Path(temporary).write_text("whole")
        assert not is_there or target.read_text() == "before"
    assert os.path.islink(link) and target.read_text() == "whole"
    files.write_text(f"{tmp_path}/disk/next", "renamed")
    files.rename(f"{tmp_path}/disk/next", link)
    assert os.path.islink(link) and target.read_text() == "renamed"
    assert os.listdir(tmp_path / "here") == ["link"]
    assert os.listdir(tmp_path / "disk") == ["target"]


def make_null_device(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes a device, and not in every container")


@pytest.mark.parametrize("by_link", [False, True])
@pytest.mark.parametrize("make", [os.mkfifo, make_null_device])
def test_a_device_or_pipe_is_written_and_stays(tmp_path, make, by_link):
    path = str(tmp_path / "stream")
    make(path)
    kind = os.stat(path).st_mode
    if by_link:
        (tmp_path / "link").symlink_to(path)
        path = str(tmp_path / "link")
    before = sorted(os.listdir(tmp_path))
    # Opened for both, a pipe waits for nobody.
    with open(os.open(path, os.O_RDWR), "rb", buffering=0) as reader:
        files.write_text(path, "through")
        if make is os.mkfifo:
            assert reader.read(7) == b"through"
        with pytest.raises(KeyError):
            with files.whole_files([path, f"{tmp_path}/file"]) as temporary:
                assert temporary[0] == path
                pathlib.Path(temporary[1]).write_text("half")
                raise KeyError
    assert os.stat(path).st_mode == kind
    assert sorted(os.listdir(tmp_path)) == before


def test_a_store_that_is_no_disk():
    # TensorFlow's file system in memory replaces gs://.
    folder = "ram://files_test/folder"
    files.check_writable(folder)
    assert tf.io.gfile.listdir(folder) == []
    files.write_text(f"{folder}/a", "schön\nb")
    assert list(files.read_lines(f"{folder}/a")) == ["schön", "b"]
    assert files.size(f"{folder}/a") == 8
    assert files.expand_patterns(f"{folder}/*") == [f"{folder}/a"]
    with pytest.raises(FileNotFoundError, match="no file matches 'ram:"):
        files.expand_patterns(f"{folder}/b*")
    with pytest.raises(FileNotFoundError, match="b: no such text file"):
        list(files.read_lines(f"{folder}/b"))
    with pytest.raises(KeyError):
        with files.whole_files([f"{folder}/b"]) as (temporary,):
            with files.open_write(temporary) as file:
                file.write(b"half")
            raise KeyError
    assert tf.io.gfile.listdir(folder) == ["a"]
