"""Runs of programs that tests kill, with the checkpoints they save."""

import sys

from tests.support.kill_support import Run
from tests.support.model_folders import write_config
from tests.support.pretraining_support import command

SAVE_STEPS = 4


def make_finetuning(goldens, folder, program, *flags, save_steps=SAVE_STEPS):
    arguments = [
        sys.executable,
        program,
        f"--vocab_file={goldens}/vocab.txt",
        f"--bert_config_file={goldens}/first_layer.json",
        f"--output_dir={folder}",
        "--do_train",
        "--train_batch_size=8",
        "--learning_rate=1e-3",
        f"--save_checkpoints_steps={save_steps}",
        "--log_steps=1",
        *flags,
    ]
    return Run(folder, (arguments, {}))


def make_classifier(goldens, folder, epochs, *flags, **options):
    """MRPC: 64 examples, 8 steps an epoch; the best weights are kept, too."""
    return make_finetuning(
        goldens,
        folder,
        "run_classifier.py",
        "--task_name=MRPC",
        f"--data_dir={goldens}/classifier/MRPC",
        "--max_seq_length=32",
        f"--num_train_epochs={epochs}",
        "--eval_every_steps=36",
        "--save_best=eval_loss",
        *flags,
        **options,
    )


def make_pretraining(goldens, folder, num_steps, *flags, save_steps=SAVE_STEPS):
    dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    path = write_config(goldens, folder.parent / "config.json", **dropout)
    arguments = command(
        goldens,
        folder,
        "--do_train",
        f"--bert_config_file={path}",
        f"--num_train_steps={num_steps}",
        "--num_warmup_steps=10",
        "--learning_rate=1e-3",
        f"--save_checkpoints_steps={save_steps}",
        "--log_steps=1",
        *flags,
    )
    return Run(folder, (arguments, {}))
