"""Runs of fine-tuning from the golden pretrained model, and their losses."""

import functools
import json

import pytest

from modeling import BertConfig, TaskModel
from tests.support import fork_server
from tests.support.classifier_support import write_records
from tests.support.pretraining_support import assert_same_checkpoint
from tests.training.support import recorded_metrics
from training.config.finetuning_options import ClassifierOptions
from training.config.run_options import DeviceOptions, TrainOptions
from training.finetuning import finetuner
from training.runs import classifier
from training.start.source import Source
from training.start.start import Start

LENGTHS = [3, 30, 8, 15, 4, 61, 22, 9, 12, 5, 17, 33, 7, 2, 40, 10, 6, 28, 19]


def make_options(goldens, output_dir, **changes):
    """Options of a run from the golden pretrained model."""
    return finetuner.FinetuningOptions(
        bert_config_file=str(goldens / "first_layer.json"),
        init_checkpoint=str(goldens / "model/trained"),
        max_seq_length=64,
        num_train_epochs=2.0,
        train=TrainOptions(
            output_dir=str(output_dir),
            train_batch_size=8,
            learning_rate=1e-3,
            num_train_steps=1,
        ),
        device=DeviceOptions(),
    ).replace(**changes)


# Calls a function of a test module on all devices of a process of its own.
_ON_DEVICES = """
import importlib, json, pathlib, sys
from training.config.run_options import DeviceOptions
module, name, strategy, *folders = sys.argv[1:]
function = getattr(importlib.import_module(module), name)
device = DeviceOptions(distribution_strategy=strategy)
print(json.dumps(function(*map(pathlib.Path, folders), device)))
"""


def on_devices(number, function, goldens, folder, **how):
    """What `function(goldens, folder, device_options)` returns on devices."""
    folder.mkdir(exist_ok=True)
    strategy = "one_device" if number == 1 else "mirrored"
    called = function.__module__, function.__name__, strategy
    arguments = _ON_DEVICES, *called, goldens, folder
    done = fork_server.python("-c", *arguments, devices=number, **how)
    return json.loads(done.stdout.splitlines()[-1])


def on_one_and_two_devices(function, goldens, folder):
    """What `function(goldens, folder, device_options)` returns on each."""
    return [
        on_devices(number, function, goldens, folder / f"devices{number}")
        for number in (1, 2)
    ]


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


class Stopped(BaseException):
    """A training was stopped by `stop_at`, as by a KeyboardInterrupt."""


def stop_at(last):
    """Returns what stops a training at a step, as `evaluate` or `on_step`."""

    def stop(step, *_):
        if step == last:
            raise Stopped

    return stop


def stopped_and_resumed(make_run, options, train_files, stop):
    """The last step of two runs with one result; one was stopped at a step."""
    whole, resumed = (
        options.replace(output_dir=f"{options.train.output_dir}/{name}")
        for name in ("whole", "resumed")
    )
    last = make_run(whole).train(train_files)
    often = {"eval_every_steps": 1, "save_checkpoints_steps": 2}
    with pytest.raises(Stopped):
        make_run(resumed.replace(**often)).train(train_files, stop_at(stop))
    again = make_run(resumed)
    assert again.manager.steps() == [*range(2, stop, 2)]
    assert again.train(train_files) == again.restore() == last
    assert_same_checkpoint(whole.train.output_dir, resumed.train.output_dir)
    return last


def losses_with_and_without(flag, make_run, options, train_files):
    """The losses with a flag of the training and without, without dropout."""
    found = []
    for value in (True, False):
        folder = f"{options.train.output_dir}/{value}"
        run = make_run(options.replace(**{flag: value}, output_dir=folder))
        run.model._head_dropout = 0.0
        with recorded_metrics() as metrics:
            run.train(train_files)
        found.append(metrics["loss"])
    return found


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
