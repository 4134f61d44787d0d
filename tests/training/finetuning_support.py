"""Runs of fine-tuning from the golden pretrained model, and their losses."""

import functools
import json

from modeling import BertConfig, TaskModel
from tests.support import fork_server
from tests.support.classifier_support import write_records
from training.config.finetuning_options import ClassifierOptions
from training.config.run_options import DeviceOptions, TrainOptions
from training.finetuning import finetuner
from training.loop import trainer
from training.runs import classifier
from training.start.source import Source
from training.start.start import Start

LENGTHS = [3, 30, 8, 15, 4, 61, 22, 9, 12, 5, 17, 33, 7, 2, 40, 10, 6, 28, 19]


def make_options(goldens, output_dir, **changes):
    """Options of a run from the golden pretrained model."""
    train = {"learning_rate": 1e-3, "train_batch_size": 8} | {
        name: changes.pop(name)
        for name in TrainOptions.__dataclass_fields__
        if name in changes
    }
    return finetuner.FinetuningOptions(
        **{
            "bert_config_file": str(goldens / "first_layer.json"),
            "init_checkpoint": str(goldens / "model/trained"),
            "max_seq_length": 64,
            "num_train_epochs": 2.0,
            "train": TrainOptions(
                output_dir=str(output_dir), num_train_steps=1, **train
            ),
            "device": DeviceOptions(),
            **changes,
        }
    )


def outputs_of_devices(script, goldens, folder):
    """The JSON that a script prints on one and on two devices."""
    found = []
    for devices in (1, 2):
        out = folder / str(devices)
        out.mkdir()
        arguments = script, goldens, out, str(devices)
        done = fork_server.python("-c", *arguments, devices=devices)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return found


def open_start(options, make_model, **changes):
    """What a run that trains begins with."""
    config = BertConfig.from_json_file(options.bert_config_file)
    source = Source(options.init_checkpoint)
    return Start(options, config, source, make_model, trains=True, **changes)


def make_run(options, kind="classification", num_labels=2, labels=()):
    """A run of a task."""
    start = open_start(
        options,
        functools.partial(TaskModel, kind=kind, num_labels=num_labels),
        rows=labels,
    )
    num_choices = num_labels if kind == "choice" else 1
    return finetuner.Finetuning(start, num_choices=num_choices)


class Stopped(Exception):
    """A training was stopped by `stop_at`."""


def stop_at(last):
    """Returns what stops a training at a step, as `evaluate` or `on_step`."""

    def stop(step, *_):
        if step == last:
            raise Stopped

    return stop


def record_losses(monkeypatch):
    """The list that the losses of all further steps are added to."""
    losses = []
    run_steps = trainer.Trainer.run_steps

    def recorded(self, *args, **kwargs):
        metrics = run_steps(self, *args, **kwargs)
        at = self.metric_names.index("loss")
        losses.extend(metrics[:, at, 0] / metrics[:, at, 1])
        return metrics

    monkeypatch.setattr(trainer.Trainer, "run_steps", recorded)
    return losses


def options_of(goldens, tmp_path, kind="single", finetuning=None, **changes):
    """Trains, evaluates and predicts a table of one's own."""
    task_options = {"kind": kind}
    if kind == "choice":
        task_options["choice_columns"] = ["endings"]
    return ClassifierOptions(
        **{
            "task_name": "tsv",
            "data_dir": f"{tmp_path}/data",
            "task_options": task_options,
            "vocab_file": str(goldens / "vocab.txt"),
            "do_train": True,
            "do_eval": True,
            "do_predict": True,
            "explain_errors": 0,  # to save time
            "finetuning": make_options(
                goldens,
                **{"output_dir": f"{tmp_path}/out", "max_seq_length": 24}
                | (finetuning or {}),
            ),
            **changes,
        }
    )


def write_tagged(folder):
    return write_records(
        folder, LENGTHS, kind="tagging", seq_length=64, num_labels=3
    )


MRPC = "classifier/MRPC/expected/model.ckpt-16"


def run_table(goldens, tmp_path, finetuning=None, **changes):
    """Evaluates, unless told otherwise, on a table of one's own."""
    first = {"init_checkpoint": str(goldens / MRPC)} | (finetuning or {})
    usual = {"do_train": False, "do_predict": False, "task_options": {}}
    return classifier.run(
        options_of(goldens, tmp_path, finetuning=first, **usual | changes)
    )
