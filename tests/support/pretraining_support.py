"""What the tests of run_pretraining.py share."""

import pathlib
import sys

import numpy as np
import pytest

from modeling import checkpoints
from tests.support import fork_server
from training.config.pretraining_options import PretrainingOptions
from training.config.run_options import DeviceOptions, TrainOptions
from training.runs import pretraining

RECORDS = "pretraining_data/wordpiece_masking.tf_record"


def make_options(goldens, output_dir):
    """Two steps of training on the golden records, to be changed."""
    return PretrainingOptions(
        bert_config_file=str(goldens / "first_layer.json"),
        input_file=str(goldens / RECORDS),
        init_checkpoint=str(goldens / "model/init"),
        max_seq_length=64,
        max_predictions_per_seq=10,
        do_train=True,
        train=TrainOptions(
            output_dir=str(output_dir), train_batch_size=16, num_train_steps=2
        ),
        device=DeviceOptions(),
    )


def refused(options, message, error=ValueError, **changes):
    """The run ends with this error and saves nothing."""
    out = pathlib.Path(changes.get("output_dir", options.train.output_dir))
    before = set(out.glob("*ckpt*"))
    with pytest.raises(error, match=message):
        pretraining.run(options.replace(**changes))
    assert set(out.glob("*ckpt*")) == before


def train(options, folder, **changes):
    """Trains in a folder; returns the last weights."""
    pretraining.run(options.replace(output_dir=str(folder), **changes))
    return read_all(folder)


def command(goldens, output_dir, *flags):
    return [
        sys.executable,
        "run_pretraining.py",
        f"--input_file={goldens / RECORDS}",
        f"--output_dir={output_dir}",
        "--max_seq_length=64",
        "--max_predictions_per_seq=10",
        "--train_batch_size=16",
        *flags,
    ]


def create(goldens, output, *flags, has_text=True, **how):
    """Runs create_pretraining_data.py, with the golden corpus."""
    text = [f"--input_file={goldens}/pretraining_data/corpus.txt"] * has_text
    return fork_server.cold_python(
        "create_pretraining_data.py",
        *text,
        f"--output_file={output}",
        f"--vocab_file={goldens}/vocab.txt",
        "--max_seq_length=64",
        "--max_predictions_per_seq=10",
        *flags,
        **how,
    )


def read_all(prefix):
    checkpoint = checkpoints.open_checkpoint(str(prefix))
    return {name: checkpoint.read(name) for name in checkpoint.shapes}


def assert_same_checkpoint(ours, theirs):
    """Equal to the last bit."""
    ours, theirs = read_all(ours), read_all(theirs)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_array_equal(ours[name], value, err_msg=name)


def latest_step(folder):
    steps = [
        int(path.stem.rpartition("-")[2])
        for path in folder.glob("model.ckpt-*.index")
    ]
    return max(steps, default=0)
