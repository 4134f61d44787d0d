"""Joins `data` and `modeling`: options, devices, training, export.

Each package may import those above it in this table.

config/            options of the programs, and the flags made of them
devices/           distribution strategy, worker processes, SIGTERM
tensorflow_log     what TensorFlow prints while it is loaded
json_log           the log as JSON
program            how every program starts and ends; the version
loop/              optimizers, training steps, checkpoints
curves             learning curves of runs, drawn
inference          batches through a model, on all devices, in order
start/             what a run begins with, read and checked once
convert/           models converted, grown or shrunk, without a run
pretraining/       what a pretraining run is made of
finetuning/        what the runs of tasks and questions are made of
vectors/           vectors of texts
runs/              the runs of the programs, each in the same phases
many_runs/         trials, all of GLUE, tables of Python
export/            SavedModels, LiteRT files, and their clients
task_program       the main function of the programs that fine-tune
"""

import data  # noqa: F401, which refuses a Python that is too old
