"""What run_pretraining.py makes of bad input: one clear error, no loss."""

import json
import os
import shutil

import pytest
import tensorflow as tf

from tests.data.pretraining.support import recipe_of, write
from tests.support import fork_server
from tests.support.pretraining_support import RECORDS, command
from training.loop.steps import TrainSteps
from training.runs import pretraining


def refused(options, message, error=ValueError, **changes):
    """The run ends with this error before it trains or writes a result."""
    changed = options.replace(**changes)
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


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (
            {"max_seq_length": 128},
            "feature input_ids is .* 64 values, expected .* 128; .* "
            "pass --max_seq_length=64",
        ),
        (
            {"max_predictions_per_seq": 20},
            "masked_lm_.* with 10 values, expected .* 20; .* "
            "pass --max_predictions_per_seq=10",
        ),
        (
            {"max_seq_length": 256},
            "--max_seq_length=256, but the model .* has 128 positions; pass "
            "--max_seq_length=128 or less",
        ),
    ],
    ids=str,
)
def test_lengths_that_do_not_fit(options, length, message):
    refused(options, message, **length)


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


def test_a_folder_that_cannot_be_written(options, tmp_path):
    (tmp_path / "file").write_text("")
    refused(
        options,
        "--output_dir: .*file/out cannot be written",
        OSError,
        output_dir=str(tmp_path / "file/out"),
    )


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
    options = options.replace(
        input_file=str(path),
        num_train_steps=200,
        gradient_accumulation_steps=accumulated,
    )
    with pytest.raises(
        ValueError,
        match=f"^{path}, record {number}: feature input_ids holds 5000, "
        "but the model allows 0 to 1199.",
    ):
        pretraining.run(options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda lines: [line.replace("[MASK]", "[mask]") for line in lines],
            r"vocab.txt has no \[MASK\]",
        ),
        (
            lambda lines: lines[:900],
            "vocab.txt has 900 wordpieces, but .* says vocab_size 1200",
        ),
    ],
)
def test_queries_need_the_whole_vocabulary(
    options, goldens, tmp_path, change, message
):
    lines = (goldens / "vocab.txt").read_text().splitlines()
    (tmp_path / "vocab.txt").write_text("\n".join(change(lines)) + "\n")
    (tmp_path / "queries.txt").write_text("the [MASK] .\n")
    refused(
        options,
        message,
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
        ({"eval_every_steps": 1}, "--eval_every_steps needs --eval_fi"),
    ],
)
def test_contradicting_options(options, changes, message):
    with pytest.raises(ValueError, match=message):
        options.replace(**changes)


def last_line(goldens, output_dir, *flags):
    """The message of a run that fails; it is no traceback."""
    _, *arguments = command(goldens, output_dir, "--do_train", *flags)
    done = fork_server.python(*arguments, code=1)
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_a_mistake_ends_in_one_line(goldens, tmp_path):
    line = last_line(
        goldens, tmp_path / "out", "--bert_config_file=absent.json"
    )
    assert line.startswith("error: absent.json: no such BERT configuration")
    # A run that was refused leaves no folder behind.
    assert not (tmp_path / "out").exists()


def test_a_diverging_run_ends_in_one_message(goldens, tmp_path):
    line = last_line(
        goldens,
        tmp_path / "out",
        f"--bert_config_file={goldens / 'first_layer.json'}",
        "--learning_rate=1e30",
        "--num_warmup_steps=0",
        "--num_train_steps=20",
    )
    assert "became nan or infinite" in line and "No checkpoint" in line
