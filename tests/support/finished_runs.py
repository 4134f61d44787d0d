"""Finished runs, made once for all test processes; copy one to change it."""

import fcntl
import os
import shutil

from tests.support import pretraining_support
from tests.support.classifier_support import write_table
from tests.training import finetuning_support, squad_support
from training.runs import classifier, pretraining


def shared(tmp_path_factory, make, *arguments):
    """Returns a folder that `make(*arguments, folder)` fills once a session."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # that of all processes
    folder = root / make.__name__
    done = root / f"{make.__name__}.done"
    with open(root / f"{make.__name__}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of one that failed
            folder.mkdir()
            make(*arguments, folder)
            done.touch()
    return folder


# Checkpoints of step 2, 4 and 6, of which the last stays.
CLASSIFIER = {"save_checkpoints_steps": 2, "num_train_epochs": 2.0}


def finished_classifier(goldens, folder):
    """`options_of` a table of single texts: data/ and out/."""
    write_table(folder / "data", "single")
    classifier.run(
        finetuning_support.options_of(goldens, folder, finetuning=CLASSIFIER)
    )


def answered_questions(goldens, folder):
    """The original's model asked the golden questions of SQuAD 1.1."""
    squad_support.run(goldens, folder, trim_batches=True, predict_batch_size=3)


def pretraining_options(goldens, output_dir):
    """Six steps, with checkpoints of 2, 4 and 6."""
    options = pretraining_support.make_options(goldens, output_dir)
    return options.replace(num_train_steps=6, save_checkpoints_steps=2)


def finished_pretraining(goldens, folder):
    """The output_dir of `pretraining_options`."""
    pretraining.run(pretraining_options(goldens, folder))
