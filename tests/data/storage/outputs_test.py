import os

import pytest

from data.storage import outputs


def check(inputs, output):
    outputs.check(inputs, {"output_file": [str(output)]})


def test_an_output_that_is_an_input_is_refused(tmp_path):
    path = tmp_path / "a"
    message = "--output_file: .* is a file of --vocab_file, too; give another p"
    with pytest.raises(ValueError, match=message):  # neither exists yet
        check({"input_file": ["b"], "vocab_file": [str(path)]}, path)
    path.write_text("a")
    for name, make in (("link", os.symlink), ("hard", os.link)):
        make(path, tmp_path / name)
        with pytest.raises(ValueError, match=message):
            check({"vocab_file": [str(path)]}, tmp_path / name)
        with pytest.raises(ValueError, match=message):
            check({"vocab_file": [str(tmp_path / name)]}, path)
    with pytest.raises(ValueError, match="a is a file of --first, too"):
        outputs.check({}, {"first": [str(path)], "second": [str(path)]})
    with pytest.raises(ValueError, match="--output_file is empty"):
        outputs.check({}, {"output_file": []})


def test_an_output_that_is_a_folder_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    for path in (tmp_path, tmp_path / "link", f"{tmp_path}/absent/"):
        with pytest.raises(ValueError, match=f"--output_file: {path} is a fol"):
            check({}, path)
    assert not (tmp_path / "absent").exists()


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("/proc/x/a")
    for path in ("/proc/x/a", tmp_path / "link"):
        with pytest.raises(OSError, match="--output_file: /proc/x cannot be w"):
            check({}, path)


def test_nothing_is_written_beside_a_pipe(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    before = tmp_path.stat().st_mtime_ns
    check({}, tmp_path / "pipe")
    assert tmp_path.stat().st_mtime_ns == before
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OSError, match="--output_file: .*pipe cannot be wri"):
        check({}, tmp_path / "pipe")


def test_an_empty_path_is_refused():
    with pytest.raises(ValueError, match="--png is empty; give a path"):
        outputs.check({}, {"png": [""]})
