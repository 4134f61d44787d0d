import dataclasses
import json

import pytest

from benchmarks.budget import dial, hour
from benchmarks.budget.dial import DialOptions, Model
from benchmarks.budget.hour import HourOptions
from benchmarks.budget.inputs import Inputs
from studies.engine.study_options import StudyData

pytestmark = pytest.mark.all

# A little more than 1 MB.
TEXT = "\n".join(f"Chapter {i}.\n" + "It rained.\n" * 1000 for i in range(100))


@pytest.fixture
def options(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    return DialOptions(
        output_dir=str(tmp_path / "out"),
        text=str(tmp_path / "text.txt"),
        vocab_file=str(tmp_path / "vocab.txt"),
        models=("2x128/8000/32", "4x256/0/16"),
        megabytes=(1,),
        minutes=(5,),
    )


def run(benchmark, options):
    """Runs a benchmark with options, without data of tasks."""
    given = {type(options): options, StudyData: StudyData()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark.program, "load_tensorflow", lambda: None)
        patch.setattr(benchmark.flags, "read", given.get)
        benchmark.main()


@pytest.mark.parametrize("name", ["2x128", "2x128/8000", "x/1/2", "a"])
def test_a_model_without_its_sizes_is_refused(name):
    with pytest.raises(ValueError, match=f"--models={name}: give LAYERSxWID"):
        Model.parse(name)


def test_updates_are_counted_and_finished_runs_are_kept(
    options, tmp_path, monkeypatch
):
    (tmp_path / "out").mkdir()
    trained = []

    def pretrain(folder, inputs, **given):
        if "num_train_steps" in given:  # not the minute that is timed
            trained.append((folder.name, given))
        model = folder / "model"
        model.mkdir(parents=True, exist_ok=True)
        (model / "eval_results.txt").write_text("masked_lm_loss = 5.0\n")
        # A minute has time for seven updates.
        (model / "model.ckpt-7.index").write_text("")
        return {"init_checkpoint": model}

    monkeypatch.setattr(hour, "pretrain", pretrain)
    monkeypatch.setattr(hour, "finetune", lambda *_: [80.0, 90.0])
    monkeypatch.setattr(dial, "run_with_log", lambda *_, **__: None)
    for _ in range(2):
        run(dial, options)
    sizes = [
        (name, given["num_train_steps"], given["train_batch_size"])
        for name, given in trained
    ]
    assert sizes == [
        ("1mb_5min_2x128_8000_32", 35, 32),
        ("1mb_5min_4x256_0_16", 35, 16),
    ]
    config = json.loads((tmp_path / "out/4x256_0_16.json").read_text())
    assert config["hidden_size"] == 256
    assert config["num_hidden_layers"] == 4
    rows = (tmp_path / "out/dial.tsv").read_text().splitlines()[1:]
    assert [row.split("\t") for row in rows] == [
        ["1", "5", "2x128", "8000", "32", "35", "5.00", "85.0"],
        ["1", "5", "4x256", "0", "16", "35", "5.00", "85.0"],
    ]


def test_less_text_than_asked_for_is_refused(options):
    with pytest.raises(ValueError, match="text.txt has 1.1 MB; give a longer"):
        run(dial, options.replace(megabytes=(1, 5)))


def test_all_sizes_are_scored_on_one_held_out_text(options, tmp_path):
    parts = {}
    for megabytes in (0.001, 1):
        inputs = Inputs(tmp_path / str(megabytes), options.text, "", "")
        inputs = dataclasses.replace(inputs, megabytes=megabytes)
        parts[megabytes] = inputs.text("eval").read_text()
        train = inputs.text("train").read_text()
        assert "Chapter 99." not in train
        # To the next end of a line.
        assert len(train) < 1e6 * megabytes + len("Chapter 10.\n")
    assert parts[0.001] == parts[1]
    assert "Chapter 99." in parts[1]


def test_another_text_in_the_same_folder_is_refused(
    options, monkeypatch, tmp_path
):
    monkeypatch.setattr(dial, "_updates", lambda *_: 7)
    monkeypatch.setattr(dial, "run_once", lambda *_: None)
    monkeypatch.setattr(dial, "_inputs", lambda *_: (None, {}))
    run(dial, options)
    (tmp_path / "text.txt").write_text(f"Another one.\n{TEXT}")
    with pytest.raises(ValueError, match="out was begun with another text;"):
        run(dial, options)


def test_other_sentences_in_the_same_folder_are_refused(monkeypatch, tmp_path):
    options = HourOptions(
        output_dir=str(tmp_path / "out"),
        vocab_file=__file__,
        texts=(__file__,),
        updates_per_minute=1.0,
        subjectivity_dir=str(tmp_path),
    )
    monkeypatch.setattr(hour, "_tasks", lambda *_: [])
    for part in "train", "dev":
        (tmp_path / f"{part}.csv").write_text("text,label\n")
    run(hour, options)
    (tmp_path / "dev.csv").write_text("text,label\nGood,1\n")
    with pytest.raises(ValueError, match="out was begun with another subjec"):
        run(hour, options)
