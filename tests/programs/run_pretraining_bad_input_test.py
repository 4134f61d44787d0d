"""What run_pretraining.py makes of bad input: one clear error, no loss."""

import dataclasses
import json
import os
import shutil

import pytest
import tensorflow as tf

from modeling import checkpoints
from tests.data.pretraining.support import recipe_of, write
from tests.support.finished_runs import pretraining_options
from tests.support.pretraining_support import (
    RECORDS,
    command,
    latest_step,
    run,
)
from training.loop.steps import TrainSteps
from training.pretraining import run_records
from training.runs import pretraining


@pytest.fixture
def finished(goldens, finished_pretraining, tmp_path):
    """A run of six steps that has ended, with checkpoints of 2, 4 and 6."""
    shutil.copytree(finished_pretraining, tmp_path / "out")
    return pretraining_options(goldens, tmp_path / "out")


def refused(options, message, error=ValueError, **changes):
    """The run ends with this error before it trains or writes a result."""
    changed = dataclasses.replace(options, **changes)
    with pytest.raises(error, match=message):
        pretraining.run(changed)
    folder = changed.train.output_dir
    if os.path.isdir(folder):
        assert not [n for n in os.listdir(folder) if "ckpt" in n]


def test_missing_records(options):
    refused(
        options,
        r"--input_file: no file matches '/no/\*.tf_record'",
        FileNotFoundError,
        input_file="/no/*.tf_record",
    )


def test_empty_records(options, tmp_path):
    (tmp_path / "empty.tf_record").write_bytes(b"")
    refused(
        options,
        "empty.tf_record holds no records",
        input_file=str(tmp_path / "empty.tf_record"),
    )


def test_truncated_records(options, goldens, tmp_path):
    content = (goldens / RECORDS).read_bytes()
    (tmp_path / "cut.tf_record").write_bytes(content[:100_000])
    refused(
        options,
        r"cut.tf_record: record \d+, at byte \d+ of 100000, is cut short",
        input_file=f"{goldens / RECORDS},{tmp_path / 'cut.tf_record'}",
    )


def test_records_of_another_length(options):
    refused(
        options,
        "feature input_ids is .* 64 values, expected .* 128; .* "
        "pass --max_seq_length=64",
        max_seq_length=128,
    )


def test_records_of_other_predictions(options):
    refused(
        options,
        "masked_lm_.* with 10 values, expected .* 20; .* "
        "pass --max_predictions_per_seq=10",
        max_predictions_per_seq=20,
    )


def test_records_of_another_vocabulary(options, goldens, tmp_path):
    config = json.loads((goldens / "first_layer.json").read_text())
    path = tmp_path / "small.json"
    path.write_text(json.dumps(config | {"vocab_size": 1000}))
    refused(
        options,
        "record 1: feature input_ids holds 1088, but the model allows 0 to 999",
        bert_config_file=str(path),
        init_checkpoint=None,
    )


def test_more_positions_than_the_model_has(options):
    refused(
        options,
        "--max_seq_length=256, but the model .* has 128 positions; pass "
        "--max_seq_length=128 or less",
        max_seq_length=256,
    )


def test_a_corrupt_init_checkpoint(options, goldens, tmp_path):
    shutil.copytree(goldens / "model/init", tmp_path / "init")
    data = tmp_path / "init/bert_model.ckpt.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[200_000] ^= 255
    data.write_bytes(content)
    refused(
        options,
        "bert_model.ckpt: this checkpoint is damaged",
        init_checkpoint=str(tmp_path / "init"),
    )


@pytest.mark.parametrize("changes", [{}, {"do_eval": True}])
@pytest.mark.parametrize("is_given", [True, False])
def test_a_folder_without_a_run_has_nothing_to_strip(
    options, tmp_path, changes, is_given
):
    if not is_given:
        changes = changes | {"init_checkpoint": None}
    refused(
        options,
        "^--strip_checkpoint strips the checkpoint of a run, but "
        f"--output_dir={tmp_path}/out holds none; give the --output_dir of a "
        r"run, or train first \(--do_train\)",
        do_train=False,
        strip_checkpoint=True,
        **changes,
    )


def test_the_checkpoint_of_a_finished_run_is_stripped(finished, tmp_path):
    pretraining.run(
        dataclasses.replace(finished, do_train=False, strip_checkpoint=True)
    )
    stripped = checkpoints.Checkpoint(str(tmp_path / "out/bert_model.ckpt"))
    assert "bert/pooler/dense/kernel" in stripped.shapes
    assert not any("adam" in name for name in stripped.shapes)


def test_a_damaged_checkpoint_of_the_run_gives_way_to_the_one_before(
    finished, tmp_path, caplog
):
    caplog.set_level("INFO", logger="absl")
    data = tmp_path / "out/model.ckpt-6.data-00000-of-00001"
    whole = data.read_bytes()
    content = bytearray(whole)
    content[50_000] ^= 1
    data.write_bytes(content)
    pretraining.run(finished)
    assert "model.ckpt-6: this checkpoint is damaged" in caplog.text
    assert "at step 4" in caplog.text
    assert data.read_bytes() == whole  # trained again, bit for bit


def test_every_checkpoint_damaged(finished, tmp_path):
    for step in (2, 4, 6):
        data = tmp_path / f"out/model.ckpt-{step}.data-00000-of-00001"
        data.write_bytes(data.read_bytes()[:1000])
    with pytest.raises(ValueError, match="every checkpoint in .* is damaged"):
        pretraining.run(finished)


def test_a_folder_that_cannot_be_written(options, tmp_path):
    (tmp_path / "file").write_text("")
    train = dataclasses.replace(
        options.train, output_dir=str(tmp_path / "file/out")
    )
    refused(
        options,
        "--output_dir: .*file/out cannot be written",
        OSError,
        train=train,
    )


def test_a_full_disk_keeps_the_last_checkpoint(options, tmp_path, monkeypatch):
    train = dataclasses.replace(
        options.train, num_train_steps=4, save_checkpoints_steps=2
    )
    save = tf.raw_ops.SaveV2
    calls = []

    def full_at_the_second(**arguments):
        calls.append(1)
        if len(calls) == 2:
            raise tf.errors.ResourceExhaustedError(
                None, None, "No space left on device"
            )
        return save(**arguments)

    monkeypatch.setattr(tf.raw_ops, "SaveV2", full_at_the_second)
    with pytest.raises(OSError, match="model.ckpt-4: No space left.*intact"):
        pretraining.run(dataclasses.replace(options, train=train))
    assert latest_step(tmp_path / "out") == 2
    pretraining.run(dataclasses.replace(options, train=train))
    assert latest_step(tmp_path / "out") == 4


def test_out_of_memory_says_what_did_not_fit_and_what_would(
    options, monkeypatch
):
    def full(*arguments):
        raise tf.errors.ResourceExhaustedError(
            None,
            None,
            "Graph execution error:\n\nDetected at node gradients\n"
            "OOM when allocating tensor with shape[9,7]\nHint: a list",
        )

    monkeypatch.setattr(TrainSteps, "run", full)
    with pytest.raises(ValueError) as error:
        pretraining.run(options)
    for part in (
        "step 1: out of memory (OOM when allocating tensor with shape[9,7])",
        "--gradient_accumulation_steps",
        "--train_batch_size",
        "docs/gpu.md",
    ):
        assert part in str(error.value)


def test_another_model_in_the_output_folder(finished, goldens, tmp_path):
    config = json.loads((goldens / "first_layer.json").read_text())
    path = tmp_path / "deep.json"
    path.write_text(json.dumps(config | {"num_hidden_layers": 4}))
    with pytest.raises(ValueError, match="holds a run of another model"):
        pretraining.run(
            dataclasses.replace(
                finished, bert_config_file=str(path), init_checkpoint=None
            )
        )


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
    (message,) = warnings(input_file=str(other))
    assert "records (sha256)" in message and "--init_checkpoint" in message
    # What changes no record, in a training and in an evaluation.
    made_from = run_records.made_from
    monkeypatch.setattr(
        run_records,
        "made_from",
        lambda *args: (
            made_from(*args)
            | {"separate_documents": True, "short_rows_share": 0.5}
        ),
    )
    for is_training in True, False:
        (message,) = warnings(do_train=is_training, do_eval=not is_training)
        assert "separate_documents False -> True" in message
        # No row is short in an evaluation.
        assert ("short_rows_share" in message) == is_training


def test_records_that_were_made_with_another_vocabulary(
    options, goldens, tmp_path
):
    tokens = (goldens / "vocab.txt").read_text().splitlines()
    other = tmp_path / "vocab.txt"
    other.write_text("\n".join([*tokens[:-2], tokens[-1], tokens[-2]]) + "\n")
    text = tmp_path / "text.txt"
    text.write_text("the old clock\nstood in the harbour\n\nit was\nthe end\n")
    write([text], tmp_path, recipe_of(goldens / "vocab.txt"), num_shards=1)
    refused(
        options,
        "not have the same vocabulary.*--vocab_file of create_pretraining_data",
        input_file=str(tmp_path / "out-00000-of-00001"),
        vocab_file=str(other),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_attention_heads": 1}, "num_attention_heads 4 -> 1"),
        ({"hidden_act": "gelu_exact"}, "hidden_act gelu -> gelu_exact"),
        ({"left_to_right": True}, "left_to_right None -> True"),
    ],
)
def test_another_model_of_the_same_shapes_in_the_output_folder(
    options, goldens, tmp_path, change, message
):
    # These change no variable, so the checkpoint alone would fit.
    out = tmp_path / "out"
    shutil.copytree(goldens / "model/trained", out)
    shutil.copy(goldens / "first_layer.json", out / "bert_config.json")
    config = json.loads((goldens / "first_layer.json").read_text())
    path = tmp_path / "other.json"
    path.write_text(json.dumps(config | change))
    with pytest.raises(ValueError, match=f"of another model: {message}"):
        pretraining.run(
            dataclasses.replace(options, bert_config_file=str(path))
        )


def test_a_run_can_go_back_in_time(finished, tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    out = tmp_path / "out"
    (out / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-2"\n')
    train = dataclasses.replace(
        finished.train, num_train_steps=3, keep_checkpoint_max=1
    )
    caplog.clear()
    pretraining.run(dataclasses.replace(finished, train=train))
    assert "names step 2; later ones (4, 6) are passed over" in caplog.text
    assert "Resuming" in caplog.text
    assert (out / "model.ckpt-3.index").exists()
    assert '"model.ckpt-3"' in (out / "checkpoint").read_text()


def test_a_copied_folder_is_a_run_of_its_own(finished, tmp_path):
    moved = tmp_path / "moved"
    (tmp_path / "out").rename(moved)
    found = checkpoints.open_checkpoint(str(moved))
    assert found.prefix == str(moved / "model.ckpt-6")
    train = dataclasses.replace(
        finished.train, output_dir=str(moved), num_train_steps=7
    )
    pretraining.run(dataclasses.replace(finished, train=train))
    assert latest_step(moved) == 7


def test_predicting_beside_a_training_run_leaves_its_files(
    options, goldens, tmp_path
):
    out = tmp_path / "out"
    shutil.copytree(goldens / "model/trained", out)
    staging = out / "model.ckpt-61.incomplete-1"
    staging.mkdir()
    pretraining.run(dataclasses.replace(options, do_train=False, do_eval=True))
    assert staging.exists()
    train = dataclasses.replace(options.train, num_train_steps=61)
    pretraining.run(dataclasses.replace(options, train=train))
    assert not staging.exists()  # left by a killed run


def test_a_damaged_resume_record_gives_way_to_the_checkpoint_before(
    finished, tmp_path, caplog
):
    (tmp_path / "out/model.ckpt-6.resume.json").write_text("{")
    pretraining.run(finished)
    assert "model.ckpt-6.resume.json is damaged" in caplog.text


def test_a_later_record_of_another_length(options, goldens, tmp_path):
    path = tmp_path / "mixed.tf_record"
    example = tf.train.Example()
    example.features.feature["input_ids"].int64_list.value.append(1)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in tf.data.TFRecordDataset(str(goldens / RECORDS)).take(2):
            writer.write(record.numpy())
        writer.write(example.SerializeToString())
    refused(
        options,
        "mixed.tf_record, record 3: feature input_ids is .* with 1 values",
        input_file=str(path),
    )


@pytest.mark.parametrize(
    "accumulated", [1, pytest.param(2, marks=pytest.mark.all)]
)
def test_an_id_that_only_a_late_record_has(
    options, goldens, tmp_path, accumulated
):
    # Beyond the sample that is looked at before the run.
    path = tmp_path / "late.tf_record"
    records = list(tf.data.TFRecordDataset(str(goldens / RECORDS)))
    bad = tf.train.Example.FromString(records[0].numpy())
    bad.features.feature["input_ids"].int64_list.value[3] = 5000
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(3):
            for record in records:
                writer.write(record.numpy())
        for _ in range(60):
            writer.write(bad.SerializeToString())
    number = 3 * len(records) + 1
    train = dataclasses.replace(
        options.train,
        num_train_steps=200,
        gradient_accumulation_steps=accumulated,
    )
    with pytest.raises(
        ValueError,
        match=f"^{path}, record {number}: feature input_ids holds 5000, "
        "but the model allows 0 to 1199.",
    ):
        pretraining.run(
            dataclasses.replace(options, input_file=str(path), train=train)
        )


def test_queries_need_the_special_tokens(options, goldens, tmp_path):
    text = (goldens / "vocab.txt").read_text().replace("[MASK]", "[mask]")
    (tmp_path / "vocab.txt").write_text(text)
    (tmp_path / "queries.txt").write_text("the [MASK] .\n")
    refused(
        options,
        r"vocab.txt has no \[MASK\]",
        do_predict=True,
        vocab_file=str(tmp_path / "vocab.txt"),
        predict_file=str(tmp_path / "queries.txt"),
    )


def test_a_vocabulary_of_another_size(options, goldens, tmp_path):
    lines = (goldens / "vocab.txt").read_text().splitlines()
    (tmp_path / "vocab.txt").write_text("\n".join(lines[:900]) + "\n")
    (tmp_path / "queries.txt").write_text("the [MASK] .\n")
    refused(
        options,
        "vocab.txt has 900 wordpieces, but .* says vocab_size 1200",
        do_predict=True,
        vocab_file=str(tmp_path / "vocab.txt"),
        predict_file=str(tmp_path / "queries.txt"),
        init_checkpoint=str(goldens / "model/trained"),
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_train": False}, "At least one of `do_train` or `do_eval` must"),
        ({"input_file": None}, "--input_file is needed"),
        ({"do_predict": True}, "--do_predict needs --predict_file"),
        ({"max_eval_steps": 0}, "--max_eval_steps=0; it must be at least 1"),
    ],
)
def test_contradicting_options(options, changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(options, **changes)


def test_evaluation_while_training_needs_other_records(options):
    train = dataclasses.replace(options.train, eval_every_steps=1)
    with pytest.raises(ValueError, match="--eval_every_steps needs --eval_fi"):
        dataclasses.replace(options, train=train)


def test_a_mistake_ends_in_one_line_without_traceback(
    goldens, pytestconfig, tmp_path
):
    done = run(
        command(
            goldens,
            tmp_path / "out",
            "--do_train",
            "--bert_config_file=absent.json",
        ),
        pytestconfig.rootpath,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        "error: absent.json: no such BERT configuration"
    )
    # A run that was refused leaves no folder behind.
    assert not (tmp_path / "out").exists()


def test_a_diverging_run_ends_in_one_message(goldens, pytestconfig, tmp_path):
    done = run(
        command(
            goldens,
            tmp_path / "out",
            "--do_train",
            f"--bert_config_file={goldens / 'first_layer.json'}",
            "--learning_rate=1e30",
            "--num_warmup_steps=0",
            "--num_train_steps=20",
        ),
        pytestconfig.rootpath,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "became nan or infinite" in done.stderr.splitlines()[-1]
    assert "none yet" in done.stderr.splitlines()[-1]
