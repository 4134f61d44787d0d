"""What the tests of run_pretraining.py share."""

import sys

from modeling import checkpoints
from tests import fork_server

RECORDS = "pretraining_data/wordpiece_masking.tf_record"


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


def run(arguments, root):
    return fork_server.run(arguments, cwd=root)


def read_all(prefix):
    checkpoint = checkpoints.Checkpoint(str(prefix))
    return {name: checkpoint.read(name) for name in checkpoint.shapes}


def latest_step(folder):
    steps = [
        int(path.stem.rpartition("-")[2])
        for path in folder.glob("model.ckpt-*.index")
    ]
    return max(steps, default=0)
