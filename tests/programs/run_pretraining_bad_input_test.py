import copy
import json
import shutil

import pytest
import tensorflow as tf

from tests.support import fork_server
from tests.support.pretraining_support import RECORDS, command, refused
from tests.support.records_support import flipped
from tests.support.run_files import examples_in, write_messages
from training.loop.steps import TrainSteps
from training.runs import pretraining


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # The golden records have 64 ids, the model has 128 positions.
        ({"max_seq_length": 128}, "input_ids .* 64 .*; .* --max_seq_length=64"),
        ({"max_seq_length": 256}, "=256, .* 128 .*; pass --max_seq_length=128"),
    ],
    ids=str,
)
def test_lengths_that_do_not_fit(options, changes, message):
    refused(options, message, **changes)


def test_missing_records(options):
    message = r"--input_file: no file matches '/no/\*.tf_record'"
    refused(options, message, FileNotFoundError, input_file="/no/*.tf_record")


def test_records_of_another_vocabulary(options, goldens, tmp_path):
    config = json.loads((goldens / "first_layer.json").read_text())
    path = tmp_path / "small.json"
    path.write_text(json.dumps(config | {"vocab_size": 1000}))
    message = "record 1: feature input_ids holds 1088, .* allows 0 to 999"
    changes = {"bert_config_file": str(path), "init_checkpoint": None}
    refused(options, message, **changes)


def test_a_corrupt_init_checkpoint(options, goldens, tmp_path):
    shutil.copytree(goldens / "model/init", tmp_path / "init")
    data = tmp_path / "init/bert_model.ckpt.data-00000-of-00001"
    data.write_bytes(flipped(data.read_bytes(), 200_000))
    message = "bert_model.ckpt: this checkpoint is damaged"
    refused(options, message, init_checkpoint=str(tmp_path / "init"))


@pytest.mark.parametrize(
    "changes", [{}, {"init_checkpoint": None}, {"do_eval": True}], ids=str
)
def test_a_folder_without_a_run_is_not_stripped(options, tmp_path, changes):
    options = options.replace(do_train=False, strip_checkpoint=True)
    message = f"^--strip_checkpoint .* --output_dir={tmp_path}/out holds none; "
    refused(options, f"{message}.* or train first .--do_train", **changes)


def test_out_of_memory_tells_what_did_not_fit_or_would(options, monkeypatch):
    def full(*arguments):
        raise tf.errors.ResourceExhaustedError(
            None,
            None,
            "Graph execution error:\n\nDetected at node gradients\n"
            "OOM when allocating tensor with shape[9,7]\nHint: a list",
        )

    monkeypatch.setattr(TrainSteps, "run", full)
    what = r"OOM when allocating tensor with shape\[9,7\]"
    message = f"step 1: out of memory .{what}.*--gradient_accumulation_steps"
    refused(options, message)


@pytest.mark.parametrize(
    "accumulated", [1, pytest.param(2, marks=pytest.mark.all)]
)
def test_an_id_that_only_a_late_record_has(
    options, goldens, tmp_path, accumulated
):
    # Beyond the sample that is looked at before the run.
    path = tmp_path / "late.tf_record"
    examples = examples_in(goldens / RECORDS)
    bad = copy.deepcopy(examples[0])
    bad.features.feature["input_ids"].int64_list.value[3] = 5000
    write_messages(path, 3 * examples + 60 * [bad])
    number = 3 * len(examples) + 1
    message = f"^{path}, record {number}: feature input_ids holds 5000, .*1199."
    options = options.replace(gradient_accumulation_steps=accumulated)
    with pytest.raises(ValueError, match=message):
        pretraining.run(
            options.replace(input_file=str(path), num_train_steps=200)
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [*lines[:4], "x", *lines[5:]], r"has no \[MASK\]"),
        (lambda lines: lines[:900], "vocab.txt has 900 wordpieces, .* 1200"),
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


def last_line(goldens, output_dir, config, *flags):
    """The message of a run that fails; it is no traceback."""
    flags = "--do_train", f"--bert_config_file={config}", *flags
    _, *arguments = command(goldens, output_dir, *flags)
    done = fork_server.python(*arguments, code=1)
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_a_mistake_ends_in_one_line(goldens, tmp_path):
    line = last_line(goldens, tmp_path / "out", "absent.json")
    assert line.startswith("error: absent.json: no such BERT configuration")
    # A run that was refused leaves no folder behind.
    assert not (tmp_path / "out").exists()


def test_a_diverging_run_ends_in_one_message(goldens, tmp_path):
    config = goldens / "first_layer.json"
    flags = "--learning_rate=1e30", "--num_warmup_steps=0"
    flags = *flags, "--num_train_steps=20"
    line = last_line(goldens, tmp_path / "out", config, *flags)
    assert "became nan or infinite" in line and "No checkpoint" in line
