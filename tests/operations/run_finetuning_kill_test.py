"""A fine-tuning that is killed or preempted ends as if nothing had happened."""

import json
from signal import SIGKILL, SIGTERM

import pytest

from tests.support.kill_runs import SAVE_STEPS, make_classifier, make_finetuning
from tests.support.kill_support import (
    after_steps,
    interrupt_again_and_again,
    twenty_one,
    while_making_records,
    while_saving,
)
from tests.support.pretraining_support import assert_same_checkpoint
from training.devices.preemption import EXIT_CODE

pytestmark = pytest.mark.alone


def assert_same_end(ours, theirs, step):
    assert_same_checkpoint(*(f / f"model.ckpt-{step}" for f in (ours, theirs)))
    best = [f / "best_checkpoint.json" for f in (ours, theirs)]
    texts = [path.read_text() for path in best]
    assert texts[0] == texts[1]
    step = json.loads(texts[0])["step"]
    assert_same_checkpoint(
        *(f / f"best/model.ckpt-{step}" for f in (ours, theirs))
    )


@pytest.fixture(scope="module")
def whole(goldens, tmp_path_factory):
    """The folder of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    make_classifier(goldens, folder, 6, save_steps=48).finish()
    return folder


# They take 2 x 16 of 48 steps at most; it is scored at step 36 and at the end.
INTERRUPTIONS = (
    [(SIGKILL, while_saving), (SIGTERM, after_steps(5, 16))],
    [(SIGKILL, after_steps(5, 16)), (SIGKILL, after_steps(5, 16))],
)


@pytest.mark.all
@pytest.mark.parametrize(
    "interruptions", INTERRUPTIONS, ids=["saving", "training"]
)
def test_an_interrupted_run_ends_with_the_same_weights(
    goldens, tmp_path, whole, interruptions
):
    run = make_classifier(goldens, tmp_path / "interrupted", 6)
    interrupt_again_and_again(run, interruptions, SAVE_STEPS)
    assert_same_end(run.folder, whole, 48)


def test_records_that_are_being_made_are_given_up(goldens, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for name in ("train", "dev", "test"):
        text = (goldens / f"classifier/MRPC/{name}.tsv").read_text("utf-8")
        header, rows = text.split("\n", 1)
        rows *= 200 if name == "train" else 1
        (data / f"{name}.tsv").write_text(f"{header}\n{rows}", "utf-8")
    run = make_classifier(goldens, tmp_path / "out", 1, f"--data_dir={data}")
    run.interrupt(SIGTERM, while_making_records, EXIT_CODE)
    assert "preempted by SIGTERM: files appear whole" in run.log()
    assert "Running training" not in run.log()
    assert not run.folder.exists()  # it would be empty


@pytest.mark.slow
@pytest.mark.parametrize("number", [SIGKILL, SIGTERM])
def test_a_classifier_interrupted_twenty_times(goldens, tmp_path, number):
    whole = make_classifier(goldens, tmp_path / "whole", 125, save_steps=1000)
    whole.finish()
    run = make_classifier(goldens, tmp_path / "interrupted", 125)
    interrupt_again_and_again(run, twenty_one(number), SAVE_STEPS)
    assert_same_end(run.folder, whole.folder, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("number", [SIGKILL, SIGTERM])
def test_questions_interrupted_twenty_times(goldens, tmp_path, number):
    def make(name, **options):
        return make_finetuning(
            goldens,
            tmp_path / name,
            "run_squad.py",
            f"--train_file={goldens}/squad/train-v1.1.json",
            "--max_seq_length=96",
            "--doc_stride=32",
            "--max_query_length=16",
            "--num_train_epochs=200",
            **options,
        )

    whole, run = make("whole", save_steps=10000), make("interrupted")
    whole.finish()
    interrupt_again_and_again(run, twenty_one(number), SAVE_STEPS)
    (last,) = (path.stem for path in whole.folder.glob("model.ckpt-*.index"))
    assert_same_checkpoint(run.folder / last, whole.folder / last)
