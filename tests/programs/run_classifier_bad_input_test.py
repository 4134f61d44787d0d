import json
import shutil
from unittest import mock

import numpy as np
import pytest

from data.text import vocabulary
from tests.support import rounding
from tests.support.classifier_support import write_table, write_texts
from tests.training.finetuning_support import (
    MRPC,
    Stopped,
    on_devices,
    run_table,
)
from training.config.run_options import DeviceOptions
from training.devices import session
from training.loop.trainer import Trainer


def test_long_and_empty_texts_are_kept_and_counted(goldens, tmp_path, logged):
    write_texts(tmp_path / "data", ["the mill", "the " * 90, "", "snow"])
    assert np.isfinite(run_table(goldens, tmp_path).results["dev"]["eval_loss"])
    assert "4 examples, 1 shortened to --max_seq_length (25.0%)" in logged.text
    assert "1 of 4 examples of the dev set have an empty text" in logged.text


def test_a_vocabulary_of_the_other_case_is_warned_of(caplog):
    lower = {"[UNK]": 0, "the": 1, "##ed": 2}
    cased = lower | {"The": 3}
    vocabulary.warn_of_case(lower, "a.txt", do_lower_case=True)
    vocabulary.warn_of_case(cased, "b.txt", do_lower_case=False)
    assert not caplog.text
    vocabulary.warn_of_case(lower, "a.txt", do_lower_case=False)
    assert "a.txt has no wordpiece with a capital: with --do_" in caplog.text
    vocabulary.warn_of_case(cased, "b.txt", do_lower_case=True)
    assert "b.txt has 1 wordpieces with capitals or" in caplog.text
    accented = lower | {"\u0625\u062b": 3}  # of Arabic, which has no capitals
    caplog.clear()
    vocabulary.warn_of_case(accented, "c.txt", do_lower_case=False)
    assert not caplog.text
    vocabulary.warn_of_case(accented, "c.txt", do_lower_case=True)
    assert "c.txt has 1 wordpieces with capitals or" in caplog.text


def messages_of_sizes(goldens, folder, device):
    """What is said of batches of 7; where no batch is needed, it trains."""
    eights = {"eval_batch_size": 8, "predict_batch_size": 8, "device": device}
    messages = []
    for name in "eval", "predict", "train":
        sizes = eights | {f"{name}_batch_size": 7}
        do = {"do_train": True, "do_predict": True}
        with pytest.raises(ValueError) as error:
            run_table(goldens, folder, sizes, **do)
        messages.append(str(error.value))
    sizes = {"eval_batch_size": 7, "predict_batch_size": 7, "device": device}
    stopped = mock.patch.object(Trainer, "train", side_effect=Stopped)
    with stopped, pytest.raises(Stopped):
        run_table(goldens, folder, sizes, do_train=True, do_eval=False)
    return messages


def test_batches_that_two_devices_cannot_share_are_refused_if_needed(
    goldens, tmp_path
):
    write_table(tmp_path / "data", "single")
    messages = on_devices(2, messages_of_sizes, goldens, tmp_path)
    for name, message in zip(
        ["eval", "predict", "train"], messages, strict=True
    ):
        assert f"--{name}_batch_size=7 cannot be divided into 2 p" in message
        assert message.endswith("the nearest sizes are 6 or 8.")


def test_a_set_that_the_task_has_not_is_named(goldens, tmp_path):
    for flag in "do_train", "do_eval":
        message = f"--task_name=ax has no set for --{flag}, only diagnostic"
        with pytest.raises(ValueError, match=message):
            run_table(goldens, tmp_path, task_name="ax", **{flag: True})


def test_a_folder_that_tensorflow_reads_as_a_glob_is_refused(tmp_path):
    # At the start, before records are made: TensorFlow would write checkpoints
    # there and read none.
    folder = tmp_path / "run[1]"
    with pytest.raises(ValueError, match="out: TensorFlow reads no checkpoint"):
        with session.joined(DeviceOptions(), f"{folder}/out"):
            pass
    assert not folder.exists()


def test_labels_that_are_not_the_model_s_are_refused(goldens, tmp_path):
    write_table(tmp_path / "data", "single")
    out = tmp_path / "out"
    out.mkdir()
    for path in (goldens / MRPC).parent.glob("model.ckpt-16.*"):
        shutil.copy(path, out)
    (out / "labels.txt").write_text("b\na\n", "utf-8")
    # Without training the train set is not opened: the model's labels count.
    expected = r"dev.jsonl, line 1: column 'label' .* expected one of b, a"
    with pytest.raises(ValueError, match=expected):
        run_table(goldens, tmp_path)
    assert (out / "labels.txt").read_text("utf-8") == "b\na\n"


@pytest.mark.all
def test_a_watched_training_ends_with_an_evaluation_of_each_example(
    goldens, tmp_path
):
    write_table(tmp_path / "data", "single")  # 24 rows to train on
    changes = {"num_train_epochs": 2.0, "train_batch_size": 4}
    changes |= {"eval_every_steps": 3, "eval_batch_size": 1}
    do = {"do_train": True, "do_eval": False}
    outcome = run_table(goldens, tmp_path, changes, **do)
    found = json.loads((tmp_path / "out/metrics.json").read_text("utf-8"))
    assert found.pop("details")["dev"]["confusion_matrix"]
    facts = {"global_step": 12, "max_seq_length": 24, "do_lower_case": True}
    facts |= {"never_split": [], "document_context": False}
    facts |= {"stride": 0, "pooling": "mean"}
    assert found == {**facts, "dev": outcome.results["dev"]}
    # The same in one batch, which has more rows than examples.
    many = run_table(goldens, tmp_path, {"eval_batch_size": 64}).results["dev"]
    assert many == pytest.approx(found["dev"], abs=rounding.EQUAL)
    assert (9 * many["accuracy"]) % 1 == pytest.approx(0)
