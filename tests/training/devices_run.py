"""Trains, evaluates and predicts on some devices, for `devices_test`.

A program of its own, since a process can be given logical devices, or join
others, only before it computes anything.

  python -m tests.training.devices_run GOLDENS OUT STRATEGY PRECISION CASE...

STRATEGY is one_device, mirrored (two logical devices of this CPU) or
multi_worker_mirrored (with TF_CONFIG). Results go to OUT/INDEX/CASE.npz, each
worker's own.
"""

import contextlib
import dataclasses
import functools
import json
import pathlib
import sys

import numpy as np
import tensorflow as tf

from modeling import TaskModel
from tests.support.classifier_support import write_records
from tests.support.pretraining_support import read_all
from tests.training import squad_support
from tests.training.finetuning_support import open_start
from training.config.run_options import DeviceOptions, TrainOptions
from training.devices import session, strategy
from training.finetuning import finetuner
from training.loop import trainer
from training.runs import pretraining, questions

# 19 examples, so that the last batch of 4 has 3; trimmed to three lengths.
LENGTHS = [3, 30, 8, 15, 4, 61, 22, 9, 12, 5, 17, 33, 7, 2, 40, 10, 6, 28, 19]


@contextlib.contextmanager
def recorded_metrics():
    """The metrics of all steps, {name: [steps]}, when the block has ended."""
    rows, metrics = [], {}
    run_steps = trainer.Trainer.run_steps

    def recorded(self, *args, **kwargs):
        found = run_steps(self, *args, **kwargs)
        rows.extend(found[..., 0] / found[..., 1])
        metrics["names"] = self.metric_names
        return found

    trainer.Trainer.run_steps = recorded
    try:
        yield metrics
    finally:
        trainer.Trainer.run_steps = run_steps
    columns = np.array(rows).T
    metrics |= dict(zip(metrics.pop("names"), columns, strict=True))


def small_config(goldens, out):
    """The golden model with one block alone, to be traced in less time."""
    config = json.loads((goldens / "bert_config.json").read_text("utf-8"))
    path = pathlib.Path(out, "one_block.json")
    path.write_text(json.dumps(config | {"num_hidden_layers": 1}), "utf-8")
    return str(path)


def train_options(out, **changes):
    """Options of a loop whose gradients are clipped at first."""
    return TrainOptions(
        output_dir=out,
        **{"learning_rate": 1e-3, "num_train_steps": 1} | changes,
    )


def pretrain(goldens, out, device, accumulation=1):
    """20 steps and an evaluation."""
    with recorded_metrics() as metrics:
        pretraining.run(
            pretraining.PretrainingOptions(
                bert_config_file=small_config(goldens, out),
                input_file=str(
                    goldens / "pretraining_data/wordpiece_masking.tf_record"
                ),
                max_seq_length=64,
                max_predictions_per_seq=10,
                do_train=True,
                do_eval=True,
                eval_batch_size=6,
                max_eval_steps=3,
                train=train_options(
                    out,
                    train_batch_size=16,
                    num_train_steps=20,
                    num_warmup_steps=5,
                    gradient_accumulation_steps=accumulation,
                ),
                device=device,
            )
        )
    text = pathlib.Path(out, "eval_results.txt").read_text("utf-8")
    evaluation = dict(line.split(" = ") for line in text.splitlines())
    return metrics | {
        f"eval/{name}": float(value) for name, value in evaluation.items()
    }


def finetune(goldens, out, device, kind, accumulation=1):
    """20 steps in trimmed, grouped batches; answers to all 19 examples."""
    records = write_records(
        pathlib.Path(out), LENGTHS, kind=kind, seq_length=64
    )
    options = finetuner.FinetuningOptions(
        bert_config_file=small_config(goldens, out),
        max_seq_length=64,
        num_train_epochs=8.5,
        eval_batch_size=4,
        predict_batch_size=6,
        group_by_length=True,
        train=train_options(
            out,
            train_batch_size=8,
            gradient_accumulation_steps=accumulation,
        ),
        device=device,
    )
    make_model = functools.partial(TaskModel, kind=kind, num_labels=2)
    run = finetuner.Finetuning(open_start(options, make_model))
    run.model._head_dropout = 0.0
    with recorded_metrics() as metrics:
        assert run.train(records) == 20
    results, scores = run.evaluate(records)
    answers = dataclasses.asdict(run.predict(records))
    if kind != "tagging":
        del answers["label_mask"]  # None
    return (
        metrics
        | {f"eval/{name}": value for name, value in results.items()}
        | {"eval/losses": scores.loss}
        | {f"predict/{name}": value for name, value in answers.items()}
    )


def answer(goldens, out, device):
    """20 steps on questions, and the scores of answers to others."""
    options = squad_support.make_options(
        goldens,
        pathlib.Path(out),
        learning_rate=1e-3,
        do_train=True,
        count_windows=True,
        num_train_epochs=20.5 * 8 / 384,
        predict_batch_size=10,
    )
    options = options.replace(
        bert_config_file=small_config(goldens, out),
        init_checkpoint=None,
        device=device,
    )
    outputs = finetuner.Finetuning.outputs
    found = {}

    def kept(self, files):
        found.update(outputs(self, files))
        return found

    finetuner.Finetuning.outputs = kept
    with recorded_metrics() as metrics:
        questions.run(options)
    finetuner.Finetuning.outputs = outputs
    answers = json.loads(
        pathlib.Path(out, "predictions.json").read_text("utf-8")
    )
    return (
        metrics
        | {f"predict/{name}": value for name, value in found.items()}
        | {"predict/texts": [answers[i] for i in sorted(answers)]}
    )


CASES = {
    "pretraining": pretrain,
    "accumulation": functools.partial(pretrain, accumulation=4),
    "classification": functools.partial(
        finetune, kind="classification", accumulation=2
    ),
    "tagging": functools.partial(finetune, kind="tagging"),
    "squad": answer,
}


def main(goldens, out, kind, precision, *cases):
    """Runs some cases."""
    goldens, out = pathlib.Path(goldens), pathlib.Path(out)
    if kind == "mirrored":
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * 2,
        )
    device = DeviceOptions(distribution_strategy=kind, precision=precision)
    cluster = strategy.cluster_of(device)
    index = cluster.index if cluster else 0
    for name in cases:
        with session.joined(device, str(out / name)) as output_dir:
            results = CASES[name](goldens, output_dir, device)
            last = f"{output_dir}/model.ckpt-20"
            results |= {f"weights/{n}": v for n, v in read_all(last).items()}
        folder = out / str(index)
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / f"{name}.npz", **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
