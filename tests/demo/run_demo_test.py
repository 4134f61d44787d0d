"""The demo's folder: only one that a demo has made is replaced."""

import pytest

from demo import run_demo


def test_a_folder_of_an_earlier_demo_is_cleared(tmp_path):
    folder = tmp_path / "demo"
    run_demo._clear(folder, None)
    (folder / "model").mkdir()
    (folder / "vocab.txt").write_text("a")
    (folder / "notes.md").write_text("of the user")
    run_demo._clear(folder, None)
    left = {path.name for path in folder.iterdir()}
    assert left == {"made_by_the_demo.txt", "notes.md"}


def test_another_folder_is_not_touched(tmp_path):
    (tmp_path / "vocab.txt").write_text("a")
    error = "holds vocab.txt and no made_by_the_demo.txt, so a demo may not re"
    with pytest.raises(ValueError, match=error):
        run_demo._clear(tmp_path, None)
    assert (tmp_path / "vocab.txt").exists()


def test_a_text_in_the_folder_or_nowhere_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such text file"):
        run_demo._clear(tmp_path, str(tmp_path / "a.txt"))
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(ValueError, match="which the demo replaces; move it"):
        run_demo._clear(tmp_path, str(tmp_path / "a.txt"))
