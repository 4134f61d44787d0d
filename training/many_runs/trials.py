"""A task trained several times, and the best on its dev set taken.

Settings (learning rate, epochs, batch size) times seeds, each a run of its own
in a folder of its own; the records are made once.

Source: the paper's sections 4.1 and A.3.
"""

import dataclasses
import glob
import itertools
import os
import time
from collections.abc import Sequence

from absl import logging

from data.storage import files, locks
from data.storage.json_files import write_json
from training.config.finetuning_options import ClassifierOptions, TrialOptions
from training.devices.strategy import (
    check_batch_size,
    check_together,
    create_strategy,
)
from training.finetuning import classifier
from training.finetuning.best_checkpoint import flat
from training.finetuning.classifier import Inputs, Outcome
from training.finetuning.finetuner import with_steps
from training.finetuning.tables import aligned, write_tsv
from training.loop.checkpointing import CheckpointManager
from training.many_runs.provenance import check_same, facts_of, read_record
from training.many_runs.trial_choice import Trial, choose, short, summarize
from training.model_files.description import model_folder

_RECORD = "trial.json"
# What a chosen trial hands on to output_dir.
_RESULT_FILES = ("*.txt", "*.tsv", "metrics.json")
_ANSWER_FILES = ("predictions*.tsv", "test_results.tsv")


def trials_of(
    options: ClassifierOptions, trials: TrialOptions
) -> list[ClassifierOptions]:
    """The options of each trial: settings, and for each of them the seeds."""
    finetuning = options.finetuning
    train = finetuning.train
    found = []
    for rate, epochs, batch_size, number in itertools.product(
        trials.learning_rates or (train.learning_rate,),
        trials.epochs or (finetuning.num_train_epochs,),
        trials.batch_sizes or (train.train_batch_size,),
        range(trials.num_trials),
    ):
        seed = train.seed + number
        name = (
            f"trial-lr{short(rate)}-epochs{short(epochs)}-batch{batch_size}"
            f"-seed{seed}"
        )
        changed = dataclasses.replace(
            finetuning,
            num_train_epochs=epochs,
            train=dataclasses.replace(
                train,
                output_dir=os.path.join(train.output_dir, name),
                learning_rate=rate,
                train_batch_size=batch_size,
                seed=seed,
            ),
        )
        found.append(
            dataclasses.replace(
                options,
                do_train=True,
                do_eval=True,
                do_predict=False,
                finetuning=changed,
            )
        )
    return found


def run(options: ClassifierOptions, trials: TrialOptions) -> Outcome:
    """Trains once, or all trials, and takes the best of them.

    Args:
      options: what to do; of trials, output_dir holds their folders, and in
        the end the files of the chosen one.
      trials: how often, and with what.

    Returns:
      How the one run, or the chosen trial, ended.

    Raises:
      ValueError, OSError, FloatingPointError: see `classifier.run`; a
        trial that diverges is an error only if all do.
    """
    output_dir = options.finetuning.train.output_dir
    if not trials.are_asked_for:
        return _run_once(options, output_dir)
    planned = trials_of(options, trials)
    inputs = classifier.prepare(*_first_of(options, planned))
    _check(planned, inputs)
    metric = inputs.task.main_metric
    done = []
    for number, trial in enumerate(planned, start=1):
        logging.info(
            "***** Trial %d of %d: %s *****",
            number,
            len(planned),
            os.path.basename(trial.finetuning.train.output_dir),
        )
        done.append(_finish(trial, inputs, may_train=options.do_train))
    chosen = _choose_and_tell(done, metric, output_dir)
    outcome = _answer(
        dataclasses.replace(
            chosen.options,
            do_train=False,
            do_eval=True,
            do_predict=options.do_predict,
        ),
        inputs._replace(train=None),
        output_dir,
    )
    for trial in done:
        if trial is not chosen:
            _keep_last(trial.options.finetuning.train.output_dir)
    return outcome


def check(options: ClassifierOptions, trials: TrialOptions) -> None:
    """Refuses what `run` would refuse before it makes records.

    Args:
      options: see `run`.
      trials: see `run`.

    Raises:
      ValueError, OSError: see `classifier.check`.
    """
    if trials.are_asked_for:
        planned = trials_of(options, trials)
        classifier.check(*_first_of(options, planned))
    else:
        classifier.check(_of_one_model(options))


def _first_of(
    options: ClassifierOptions, planned: Sequence[ClassifierOptions]
) -> tuple[ClassifierOptions, ClassifierOptions]:
    """What all trials read, and the first trial that has not begun."""
    # All trials are scored, whether or not the result is asked for.
    options = dataclasses.replace(options, do_train=True, do_eval=True)
    for trial in planned:
        folder = trial.finetuning.train.output_dir
        if not files.exists(os.path.join(folder, _RECORD)):
            return options, trial
    return options, planned[0]


def _of_one_model(options: ClassifierOptions) -> ClassifierOptions:
    """The options, with the folder of the chosen trial if there are trials."""
    output_dir = options.finetuning.train.output_dir
    folder = model_folder(output_dir)
    if folder == output_dir:
        return options
    if options.do_train:
        raise ValueError(
            f"{output_dir} holds trials; give their flags (--num_trials, "
            "--trial_...) to go on with them, or another --output_dir."
        )
    train = dataclasses.replace(options.finetuning.train, output_dir=folder)
    finetuning = dataclasses.replace(options.finetuning, train=train)
    return dataclasses.replace(options, finetuning=finetuning)


def _run_once(options: ClassifierOptions, output_dir: str) -> Outcome:
    """Runs the one model of output_dir; of trials that are there, the best."""
    options = _of_one_model(options)
    folder = options.finetuning.train.output_dir
    if folder == output_dir:
        return classifier.run(options)
    logging.info(
        "%s holds trials: using the chosen one, %s.",
        *(output_dir, os.path.basename(folder)),
    )
    return _answer(options, None, output_dir)


def _answer(
    options: ClassifierOptions, inputs: Inputs | None, output_dir: str
) -> Outcome:
    """Asks the chosen trial; its result files come to output_dir, too."""
    outcome = classifier.run(options, inputs)
    folder = options.finetuning.train.output_dir
    for pattern in _ANSWER_FILES:
        for path in _matches(output_dir, pattern):
            files.remove(path)  # perhaps of a trial that was chosen before
    for pattern in _RESULT_FILES:
        for path in _matches(folder, pattern):
            target = os.path.join(output_dir, os.path.basename(path))
            files.copy(path, target)
    return outcome


def _matches(folder: str, pattern: str) -> list[str]:
    """The paths of a folder's files whose names match a glob."""
    return files.find(os.path.join(glob.escape(folder), pattern))


def _check(planned: Sequence[ClassifierOptions], inputs: Inputs) -> None:
    """Refuses a setting that cannot be trained before any is."""
    devices = create_strategy(planned[0].finetuning.device).num_replicas_in_sync
    for trial in planned:
        train = trial.finetuning.train
        check_batch_size(
            "trial_batch_sizes",
            train.train_batch_size,
            devices * train.gradient_accumulation_steps,
        )
        with_steps(trial.finetuning, inputs.train.count)


def _finish(
    options: ClassifierOptions, inputs: Inputs, *, may_train: bool
) -> Trial:
    """Runs a trial, or reads what an earlier process has scored."""
    folder = options.finetuning.train.output_dir
    path = os.path.join(folder, _RECORD)
    facts = facts_of(options, inputs)
    record = {"made_from": facts}
    if files.exists(path):
        record = read_record(path)
        check_same(path, record["made_from"], facts)
    is_done = "results" in record
    check_together(
        create_strategy(options.finetuning.device),
        f"{os.path.basename(folder)} ({'done' if is_done else 'to do'})",
    )
    if is_done:
        logging.info("%s: done before.", folder)
        return Trial(
            options, record["results"], record["seconds"], record["failure"]
        )
    if not may_train:
        raise ValueError(
            f"{folder} holds no finished trial; give --do_train, or the flags "
            "of the trials that are there."
        )
    with locks.sole_use(folder):
        write_json(path, record)
        began, results, failure = time.monotonic(), {}, ""
        inputs = inputs._replace(test={})
        try:
            results = classifier.run(options, inputs).results
        except FloatingPointError as error:  # of all workers alike
            logging.error("%s failed: %s", folder, error)
            failure = str(error)
        seconds = round(time.monotonic() - began, 1)
        record |= {"results": results, "seconds": seconds, "failure": failure}
        write_json(path, record)
    return Trial(options, results, seconds, failure)


def _choose_and_tell(
    trials: Sequence[Trial], metric: str, output_dir: str
) -> Trial:
    """Writes trials.tsv and trials.json, shows the settings, chooses."""
    names = list(
        dict.fromkeys(n for trial in trials for n in flat(trial.results))
    )
    columns = ["learning_rate", "epochs", "batch_size", "seed"]
    rows = [["trial", *columns, *names, "seconds", "failure"]]
    for trial in trials:
        scores = flat(trial.results)
        rows.append(
            [
                os.path.basename(trial.options.finetuning.train.output_dir),
                *map(short, trial.setting),
                trial.seed,
                *(scores.get(name) for name in names),
                trial.seconds,
                " ".join(trial.failure.split()),
            ]
        )
    write_tsv(os.path.join(output_dir, "trials.tsv"), rows)
    header = [*columns[:-1], "median", "min", "max", "std", "trials"]
    table = [header, *(s.row() for s in summarize(trials, metric))]
    logging.info("%s on the dev set:\n%s", metric, aligned(table))
    chosen = choose(trials, metric)
    name = os.path.basename(chosen.options.finetuning.train.output_dir)
    found = {
        "metric": metric,
        "chosen": name,
        "value": chosen.value(metric),
        "settings": [dict(zip(header, row, strict=True)) for row in table[1:]],
        "trials": [dict(zip(rows[0], row, strict=True)) for row in rows[1:]],
    }
    write_json(os.path.join(output_dir, "trials.json"), found)
    logging.info(
        "Chosen: %s, the best (%s = %.4f) of the setting with the best median.",
        name,
        metric,
        chosen.value(metric),
    )
    return chosen


def _keep_last(folder: str) -> None:
    """Leaves a trial that was not chosen its last checkpoint."""
    # Its best weights, too, if it has any: with more trials to compare it
    # with, it may be the chosen one.
    manager = CheckpointManager(folder)
    if steps := manager.steps():
        manager.keep_only(steps[-1])
