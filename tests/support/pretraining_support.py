"""What the tests of run_pretraining.py share."""

import sys

import numpy as np

from modeling import checkpoints
from training.config.pretraining_options import PretrainingOptions
from training.config.run_options import DeviceOptions, TrainOptions

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
            output_dir=str(output_dir),
            train_batch_size=16,
            num_train_steps=2,
        ),
        device=DeviceOptions(),
    )


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
