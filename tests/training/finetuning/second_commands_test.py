"""Later commands in a folder that name nothing but the folder and the data."""

import json

import pytest

from tests.support.classifier_support import write_table
from tests.support.model_folder_support import change_description
from tests.support.run_files import cells_in, json_lines_in
from tests.training.finetuning_support import options_of
from training.loop.checkpointing import CheckpointManager
from training.runs import classifier


@pytest.fixture(scope="module")
def trained(goldens, tmp_path_factory):
    """A folder, its options, and the steps that `on_step` saw."""
    folder, seen = tmp_path_factory.mktemp("trained"), []
    write_table(folder / "data", "single")
    (folder / "data/dev.jsonl").unlink()
    options = options_of(
        goldens,
        folder,
        task_options={"dev_share": 0.25},
        finetuning={
            "keep_checkpoint_max": 2,
            "save_checkpoints_steps": 1,
            "on_step": lambda step, values: seen.append((step, values)),
        },
        given=frozenset(),
    )
    classifier.run(options)
    return folder, options, seen


def later(options, **changes):
    """A command that gives the test file and `changes` alone."""
    usual = {"do_train": False, "do_eval": False, "task_name": None}
    return options.replace(
        **{**usual, "data_dir": None, "init_checkpoint": None} | changes
    )


def test_each_step_is_told_once_with_its_loss(trained):
    *_, seen = trained
    assert [step for step, _ in seen] == [*range(1, 1 + len(seen))]
    assert seen and all(values["loss"] > 0 for _, values in seen)


def test_a_given_number_of_checkpoints_is_kept(trained):
    folder, _, seen = trained
    steps = CheckpointManager(str(folder / "out")).steps()
    assert steps == [len(seen) - 1, len(seen)]


def test_a_process_that_only_evaluates_draws_the_same_dev_set(trained):
    folder, options, _ = trained
    paths = [
        folder / "out" / name
        for name in ("dev_predictions.tsv", "eval_results.txt")
    ]
    before = [path.read_bytes() for path in paths]
    assert 0 < before[0].count(b"\n") - 1 < 24
    for path in paths:
        path.unlink()
    classifier.run(options.replace(do_train=False, do_predict=False))
    assert [path.read_bytes() for path in paths] == before


def test_the_test_file_alone_gives_the_same_answers(trained):
    folder, options, _ = trained
    table, path = folder / "data/train.jsonl", folder / "out/predictions.tsv"
    answers, rows = path.read_text(), table.read_text()
    table.write_text("no table at all")
    try:
        test_file = str(folder / "data/test.jsonl")
        command = later(options, task_options={"test_file": test_file})
        classifier.run(command)
        assert path.read_text() == answers
        classifier.run(command.replace(write_texts=True))
    finally:
        table.write_text(rows)
    header, *lines = cells_in(path)
    texts = [row["text"] for row in json_lines_in(folder / "data/test.jsonl")]
    assert [line[header.index("text")] for line in lines] == texts


def test_a_command_records_the_texts_of_a_converted_model(trained):
    """No file of Hugging Face says whether it reads pairs."""
    folder, options, _ = trained
    change_description(folder / "out", is_pair=None)
    test_file = str(folder / "data/test.jsonl")
    classifier.run(later(options, task_options={"test_file": test_file}))
    assert (
        json.loads((folder / "out/task.json").read_text())["is_pair"] is False
    )


def test_another_drawn_dev_set_would_have_trained_rows(trained, caplog):
    folder, options, _ = trained
    usual = {"do_predict": False, "data_dir": str(folder / "data")}
    for name, value in ("text_columns", ["title"]), ("dev_share", 0.5):
        usual["task_options"] = {name: value}
        command = later(options, do_eval=True, **usual)
        with pytest.raises(
            ValueError, match=f"trained on: {name} .*--dev_file"
        ):
            classifier.run(command)
    with pytest.raises(ValueError, match="trained on other data: examples"):
        classifier.run(command.replace(do_train=True))
    assert f"--dev_share=0.5, but the model of {folder}/out was" in caplog.text


def test_an_option_of_another_task_is_refused(trained):
    folder, options, _ = trained
    given = {"data_dir": str(folder / "data"), "task_options": {"language": ""}}
    with pytest.raises(ValueError, match="has no option --language"):
        classifier.run(later(options, **given))
