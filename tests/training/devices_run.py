"""Trains, evaluates and predicts on some devices, for `devices_test`.

A program of its own, since a process can be given logical devices, or join
others, only before it computes anything.

  python -m tests.training.devices_run GOLDENS OUT STRATEGY PRECISION CASE...

STRATEGY is one_device, mirrored (logical devices of this CPU) or
multi_worker_mirrored (with TF_CONFIG). Results go to OUT/INDEX/CASE.npz, each
worker's own.
"""

import dataclasses
import functools
import pathlib
import sys
from unittest import mock

import numpy as np

from tests.support.classifier_support import write_records
from tests.support.pretraining_support import make_options, read_all
from tests.support.run_files import results_in
from tests.training import finetuning_support, squad_support
from tests.training.support import recorded_metrics
from training.config.run_options import DeviceOptions
from training.devices import session, strategy
from training.finetuning import finetuner
from training.runs import pretraining, questions


def pretrain(goldens, out, device, accumulation=1):
    """20 steps and an evaluation; gradients are clipped at first."""
    with recorded_metrics() as metrics:
        pretraining.run(
            make_options(goldens, out).replace(
                init_checkpoint=None,
                learning_rate=1e-3,
                num_train_steps=20,
                num_warmup_steps=5,
                gradient_accumulation_steps=accumulation,
                do_eval=True,
                eval_batch_size=6,
                max_eval_steps=3,
                device=device,
            )
        )
    evaluation = results_in(pathlib.Path(out))
    return metrics | {f"eval/{name}": x for name, x in evaluation.items()}


def finetune(goldens, out, device, kind, accumulation=1):
    """20 steps in trimmed, grouped batches; answers to all 19 examples.

    The last batch of 4 has 3; batches are trimmed to three lengths.
    """
    records = write_records(
        pathlib.Path(out), finetuning_support.LENGTHS, kind=kind, seq_length=64
    )
    options = finetuning_support.make_options(
        goldens,
        out,
        init_checkpoint=None,
        num_train_epochs=8.5,
        eval_batch_size=4,
        predict_batch_size=6,
        group_by_length=True,
        gradient_accumulation_steps=accumulation,
        device=device,
    )
    run = finetuning_support.make_run(options, kind)
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
        init_checkpoint=None,
        device=device,
    )
    outputs = finetuner.Finetuning.outputs
    found = {}

    def kept(self, files):
        found.update(outputs(self, files))
        return found

    keeping = mock.patch.object(finetuner.Finetuning, "outputs", kept)
    with keeping, recorded_metrics() as metrics:
        questions.run(options)
    answers = squad_support.read_answers(pathlib.Path(out))["predictions"]
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
