import shutil

import pytest
import tensorflow as tf

from modeling import checkpoints
from tests.support.finished_runs import pretraining_options
from tests.support.model_folders import write_config
from tests.support.pretraining_support import latest_step, refused
from tests.support.records_support import flipped
from training.pretraining import run_records
from training.runs import pretraining

STRIPPED = [f"bert_model.ckpt{x}" for x in (".index", ".data-00000-of-00001")]


@pytest.fixture
def finished(goldens, finished_pretraining, tmp_path):
    """A run of six steps that has ended, with checkpoints of 2, 4 and 6."""
    shutil.copytree(finished_pretraining, tmp_path / "out")
    return pretraining_options(goldens, tmp_path / "out")


def test_a_finished_run_is_stripped_but_not_over_the_weights_it_begins_with(
    finished, tmp_path
):
    pretraining.run(finished.replace(do_train=False, strip_checkpoint=True))
    stripped = checkpoints.Checkpoint(str(tmp_path / "out/bert_model.ckpt"))
    assert "bert/pooler/dense/kernel" in stripped.shapes
    assert not any("adam" in name for name in stripped.shapes)
    (tmp_path / "new").mkdir()
    for name in "bert_config.json", *STRIPPED:
        (tmp_path / "out" / name).rename(tmp_path / "new" / name)
    first = {"init_checkpoint": str(tmp_path / "new/bert_model.ckpt")}
    first |= {"output_dir": str(tmp_path / "new"), "bert_config_file": None}
    data = (tmp_path / "new" / STRIPPED[1]).read_bytes()
    message = "--strip_checkpoint would replace"
    refused(finished, message, **first, strip_checkpoint=True)
    assert (tmp_path / "new" / STRIPPED[1]).read_bytes() == data


def test_what_is_damaged_gives_way_to_the_checkpoint_before(
    finished, tmp_path, logged
):
    data = tmp_path / "out/model.ckpt-6.data-00000-of-00001"
    whole = data.read_bytes()
    data.write_bytes(flipped(whole, 50_000))
    (tmp_path / "out/model.ckpt-4.resume.json").write_text("{")
    pretraining.run(finished)
    assert "model.ckpt-6: this checkpoint is damaged" in logged.text
    assert "model.ckpt-4.resume.json is damaged" in logged.text
    assert "at step 2" in logged.text
    assert data.read_bytes() == whole  # trained again, bit for bit


@pytest.mark.all
def test_a_full_disk_keeps_the_last_checkpoint(options, tmp_path, monkeypatch):
    options = options.replace(num_train_steps=4, save_checkpoints_steps=2)
    save = tf.raw_ops.SaveV2
    calls = []

    def full_at_the_second(**arguments):
        calls.append(1)
        if len(calls) == 2:
            raise tf.errors.ResourceExhaustedError(None, None, "No space left")
        return save(**arguments)

    monkeypatch.setattr(tf.raw_ops, "SaveV2", full_at_the_second)
    with pytest.raises(OSError, match="model.ckpt-4: No space left.*intact"):
        pretraining.run(options)
    assert latest_step(tmp_path / "out") == 2
    pretraining.run(options)
    assert latest_step(tmp_path / "out") == 4


def test_a_model_of_another_direction_in_the_output_folder(
    options, goldens, tmp_path
):
    # This changes no variable, so the checkpoint alone would fit.
    path = write_config(goldens, tmp_path / "other.json", left_to_right=True)
    out = tmp_path / "out"
    shutil.copytree(goldens / "model/trained", out)
    shutil.copy(goldens / "first_layer.json", out / "bert_config.json")
    message = "a run of another model: left_to_right None -> True"
    refused(options, message, bert_config_file=path)


def test_another_input_or_rate_in_the_output_folder_is_a_warning(
    finished, tmp_path, caplog, monkeypatch
):
    """A corpus may grow, and a run goes on with the larger one."""

    def warnings(**changes):
        caplog.clear()
        pretraining.run(finished.replace(**changes))
        asked = "another input", "other settings"
        return [m for m in caplog.messages if any(x in m for x in asked)]

    assert not warnings()
    other = tmp_path / "other.tf_record"
    with tf.io.TFRecordWriter(str(other)) as writer:
        for record in [*tf.data.TFRecordDataset(finished.input_file)][::-1]:
            writer.write(record.numpy())
    (message,) = warnings(learning_rate=0.25, save_checkpoints_steps=7)
    assert "learning_rate" in message and "-> 0.25" in message
    (message,) = warnings(group_by_length=True)
    assert "group_by_length False -> True" in message
    (message,) = warnings(input_file=str(other))
    assert "records (sha256)" in message and "--init_checkpoint" in message
    # What changes no record, in a training and in an evaluation.
    made_from = run_records.made_from
    facts = {"separate_documents": True, "short_rows_share": 0.5}
    monkeypatch.setattr(
        run_records, "made_from", lambda *args: made_from(*args) | facts
    )
    for is_training in True, False:
        (message,) = warnings(do_train=is_training, do_eval=not is_training)
        assert "separate_documents False -> True" in message
        # No row is short in an evaluation.
        assert ("short_rows_share" in message) == is_training


def test_a_copied_folder_is_a_run_that_can_go_back_in_time(
    finished, tmp_path, logged
):
    out = tmp_path / "moved"
    (tmp_path / "out").rename(out)
    found = checkpoints.open_checkpoint(str(out))
    assert found.prefix == str(out / "model.ckpt-6")
    finished = finished.replace(output_dir=str(out))
    (out / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-2"\n')
    pretraining.run(finished.replace(num_train_steps=3, keep_checkpoint_max=1))
    assert "names step 2 and passes over 4, 6." in logged.text
    assert "Resuming" in logged.text
    assert (out / "model.ckpt-3.index").exists()
    assert '"model.ckpt-3"' in (out / "checkpoint").read_text()


def test_predicting_beside_a_training_run_leaves_its_files(
    options, goldens, tmp_path
):
    out = tmp_path / "out"
    shutil.copytree(goldens / "model/trained", out)
    staging = out / "model.ckpt-61.incomplete-1"
    staging.mkdir()
    pretraining.run(options.replace(do_train=False, do_eval=True))
    assert staging.exists()
    pretraining.run(options.replace(num_train_steps=60))
    assert not staging.exists()  # left by a killed run
