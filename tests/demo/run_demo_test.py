"""The demo: the folder that it replaces, and how long it trains."""

import json

import pytest

from data.storage import locks
from demo import run_demo
from tests.support import fork_server
from training.config import recipes


def test_a_folder_of_an_earlier_demo_is_cleared(tmp_path):
    folder = tmp_path / "demo"
    run_demo._clear(folder, None)
    (folder / "model").mkdir()
    (folder / "vocab.txt").write_text("a")
    (folder / "notes.md").write_text("of the user")
    run_demo._clear(folder, None)
    left = {path.name for path in folder.iterdir()}
    assert left == {"made_by_the_demo.txt", "notes.md"}


def test_two_demos_in_a_folder_exclude_each_other(tmp_path):
    """A new folder holds the lock alone."""
    with locks.sole_use(str(tmp_path)):
        run_demo._clear(tmp_path, None)
        flags = "-m", "demo.run_demo", f"--output_dir={tmp_path}"
        done = fork_server.cold_python(*flags, code=1)
    assert f"{tmp_path} is in use by process" in done.stderr


def test_another_folder_is_not_touched(tmp_path):
    (tmp_path / "vocab.txt").write_text("a")
    with pytest.raises(ValueError, match="no made_by_the_demo.txt, so a demo"):
        run_demo._clear(tmp_path, None)
    assert (tmp_path / "vocab.txt").exists()


def test_a_text_in_the_folder_or_nowhere_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such text file"):
        run_demo._clear(tmp_path, str(tmp_path / "a.txt"))
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(ValueError, match="which is replaced; move it"):
        run_demo._clear(tmp_path, str(tmp_path / "a.txt"))


@pytest.mark.parametrize(
    ("minutes", "wordpieces", "flag"),
    [
        (0, 10**9, "--num_train_steps=2800"),
        (15, 10**9, "--num_train_minutes=15"),
        # 30 passes over the text, in batches of 32 x 64.
        (15, 40_960, "--num_train_steps=600"),
        (15, 100, "--num_train_steps=100"),  # at least
    ],
)
def test_a_small_text_takes_less_training(minutes, wordpieces, flag, tmp_path):
    manifest = {"counts": {"wordpieces": wordpieces}}
    path = tmp_path / "train.tf_record.manifest.json"
    path.write_text(json.dumps(manifest))
    options = run_demo.DemoOptions(minutes=minutes)
    model = recipes.Sizes(4, 256, 8000, 32, 166)
    assert run_demo._duration(tmp_path, options, model) == flag


@pytest.mark.parametrize(
    ("line", "word", "question"),
    [
        ("An old clock stood by us.", "stood", "An old clock [MASK] by us."),
        # Its vowels are combining marks, its full stop is a danda.
        ("शायद ड्रेस कोड बहुत उबाऊ था।", "बहुत", "शायद ड्रेस कोड [MASK] उबाऊ था।"),
        ("北京是中国的首都和中心", "的", "北京是中国[MASK]首都和中心"),
    ],
)
def test_a_word_of_any_script_is_asked_for(tmp_path, line, word, question):
    tokens = "".join(f"{x}\n" for x in ("[UNK]", word, "a", "##a"))
    # Its wordpieces are more than the model reads.
    long = " ".join(["a" * 12] * 6 + [word])
    (tmp_path / "eval.txt").write_text(f"{long}\n{line}\n", "utf-8")
    (tmp_path / "vocab.txt").write_text(tokens, "utf-8")
    assert run_demo._questions(tmp_path, False) == [(question, word)]
