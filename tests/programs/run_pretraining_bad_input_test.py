import copy

import pytest
import tensorflow as tf

from tests.support import fork_server
from tests.support.pretraining_support import RECORDS, command, refused
from tests.support.run_files import examples_in, write_messages
from tests.support.tiers import rare
from training.loop.steps import TrainSteps


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # The golden records have 64 ids, the model has 128 positions.
        ({"max_seq_length": 128}, "input_ids .* 64 .*; .* --max_seq_length=64"),
        ({"max_seq_length": 256}, "=256, .* 128 positions; give 128 or less"),
    ],
    ids=str,
)
def test_lengths_that_do_not_fit(options, changes, message):
    refused(options, message, **changes)


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


@pytest.mark.parametrize("accumulated", [1, rare(2)])
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
    changes = {"input_file": str(path), "num_train_steps": 200}
    changes["gradient_accumulation_steps"] = accumulated
    refused(options, message, **changes)


def test_queries_need_masks_in_the_vocabulary(options, goldens, tmp_path):
    lines = (goldens / "vocab.txt").read_text().splitlines()
    lines[4] = "x"
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "queries.txt").write_text("the [MASK] .\n")
    refused(
        options,
        r"has no \[MASK\]",
        do_predict=True,
        vocab_file=str(tmp_path / "vocab.txt"),
        predict_file=str(tmp_path / "queries.txt"),
        init_checkpoint=str(goldens / "model/trained"),
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_train": False}, "At least one of `do_train` or `do_eval` must"),
        ({"do_predict": True}, "--do_predict needs --predict_file"),
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


@pytest.mark.all
def test_a_diverging_run_ends_in_one_message(goldens, tmp_path):
    config = goldens / "first_layer.json"
    flags = "--learning_rate=1e30", "--num_warmup_steps=0"
    flags = *flags, "--num_train_steps=20"
    line = last_line(goldens, tmp_path / "out", config, *flags)
    assert "became nan or infinite" in line and "No checkpoint" in line
