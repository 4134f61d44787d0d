"""Trains a task several times and takes the best run on its dev set.

There is one run for each setting (learning rate, epochs, batch size) and seed,
each in its own folder. The records are made once.

Source: the paper's sections 4.1 and A.3.
"""

import itertools
import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from absl import logging

from data.storage import files
from data.storage.json_files import write_json
from data.tables import aligned, tsv
from data.tasks import KINDS, Task
from modeling.checkpoints import tf1
from modeling.checkpoints.model_folder import LABELS, VOCABULARIES, chosen_trial
from training.config.finetuning_options import ClassifierOptions, TrialOptions
from training.config.run_options import DeviceOptions
from training.devices import strategy as devices
from training.finetuning.finetuner import with_steps
from training.finetuning.metric_values import flat
from training.loop.checkpointing import CheckpointManager
from training.many_runs.made_from import facts_of
from training.many_runs.recorded_run import RecordedRun
from training.many_runs.trial_choice import Trial, choose, short, summarize
from training.runs import classifier
from training.runs.classifier import Inputs, Outcome
from training.start import found_files

_RECORD = "trial.json"
_COLUMNS = ("learning_rate", "epochs", "batch_size", "seed")
# Files of the chosen trial that are copied to output_dir.
_RESULT_FILES = ("*.txt", "*.tsv", "metrics.json", "errors*.html")


def trials_of(
    options: ClassifierOptions, trials: TrialOptions
) -> Iterator[ClassifierOptions]:
    """The options of each trial: all seeds of the first setting, and so on."""
    find = options.find
    for rate, epochs, batch_size, number in itertools.product(
        trials.learning_rates or (find("learning_rate"),),
        trials.epochs or (find("num_train_epochs"),),
        trials.batch_sizes or (find("train_batch_size"),),
        range(trials.num_trials),
    ):
        seed = find("seed") + number
        name = f"trial-lr{short(rate)}-epochs{short(epochs)}"
        name += f"-batch{batch_size}-seed{seed}"
        yield options.replace(
            output_dir=os.path.join(options.output_dir, name),
            num_train_epochs=epochs,
            learning_rate=rate,
            train_batch_size=batch_size,
            seed=seed,
            do_train=True,
            do_eval=True,
            do_predict=False,
            write_texts=False,
            explain_errors=0,  # those of the chosen trial, at the end
        )


def check(options: ClassifierOptions, trials: TrialOptions) -> None:
    """Refuses what `run` would refuse before it makes records."""
    if trials.changed():
        _open(options, trials)
    else:
        classifier.Run(_of_one_model(options))


def run(options: ClassifierOptions, trials: TrialOptions) -> Outcome:
    """Trains once, or runs all trials and takes the best of them.

    With trials, output_dir holds their folders and, at the end, the result
    files of the chosen one. A trial that diverges raises FloatingPointError
    only if all of them do.
    """
    if not trials.changed():
        return run_once(options)
    output_dir = options.output_dir
    planned, opened = _open(options, trials)
    inputs = opened.make_records(output_dir)
    if others := _begun(options) - {*map(_name, planned)}:
        logging.warning(
            "%s holds trials of other flags (%s): they are neither compared "
            "nor in trials.tsv.",
            *(output_dir, ", ".join(sorted(others))),
        )
    # All of them are checked before the first one.
    checked = dict(_checked(planned, inputs, options.do_train))
    names = one_by_one("Trial", checked, options.finetuning.device)
    done = [_finish(inputs, *checked[name]) for name in names]
    chosen = _choose_and_tell(done, inputs.task, output_dir)
    names = ("do_predict", "write_texts", "explain_errors")
    given = {name: getattr(options, name) for name in names}
    asked = chosen.options.replace(do_train=False, **given)
    outcome = _answer(asked, inputs._replace(train=None), output_dir)
    # The last checkpoint of each trial stays, and its best weights: with
    # further trials to compare it with, it may be chosen later.
    tidies = options.find("keep_checkpoint_max") is None
    for trial in done if tidies else ():
        manager = CheckpointManager(trial.options.output_dir)
        if trial is not chosen and (step := manager.latest_step()) is not None:
            manager.keep_only(step)
    return outcome


def one_by_one(
    what: str,
    names: Collection[str],
    device: DeviceOptions,
    failures: Collection[str] = (),
) -> Iterator[str]:
    """Yields the names of runs; the caller finishes each before the next.

    `what` is a word for the log, such as `Task`. Several workers of `device`
    begin each run together, with the same `failures`, names of runs that the
    caller may add to.
    """
    for number, name in enumerate(names, start=1):
        place = what, number, len(names), name
        logging.info("***** %s %d of %d: %s *****", *place)
        point = f"{name}, with {', '.join(failures) or 'none'} failed before"
        strategy = devices.create_strategy(device)
        devices.check_together(strategy, f"{what} {point}")
        yield name


def _open(
    options: ClassifierOptions, trials: TrialOptions
) -> tuple[list[ClassifierOptions], classifier.Run]:
    """The planned trials; the first that has not begun, with all sets."""
    if tf1.has_run(options.output_dir):
        raise ValueError(
            f"--output_dir={options.output_dir} holds a run that is no trial; "
            "give another one, or leave --num_trials and --trial_... out."
        )
    options = _filled(options)
    classifier.check_tables(options, options.output_dir)
    planned = list(trials_of(options, trials))
    flag = "trial_batch_sizes" if trials.batch_sizes else "train_batch_size"
    for trial in planned:
        devices.check_batch_sizes(trial.finetuning, ["train_batch_size"], flag)
    begun = _begun(options)
    new = (trial for trial in planned if _name(trial) not in begun)
    first = next(new, planned[0]).replace(do_predict=options.do_predict)
    return planned, classifier.Run(first)


def run_once(options: ClassifierOptions) -> Outcome:
    """Runs the model of output_dir; if it holds trials, the chosen one."""
    chosen, folder = _of_one_model(options), options.output_dir
    if chosen.output_dir == folder:
        return classifier.run(chosen)
    logging.info("%s holds trials: using the chosen %s.", folder, _name(chosen))
    filled = _filled(chosen)
    classifier.check_tables(filled, folder)
    return _answer(filled, None, folder)


def _filled(options: ClassifierOptions) -> ClassifierOptions:
    """The options with what the command leaves out; they count as given."""
    return found_files.fill(options, kinds=KINDS)[0].replace(given=None)


def _answer(
    options: ClassifierOptions, inputs: Inputs | None, output_dir: str
) -> Outcome:
    """Evaluates the chosen trial; copies its result files to output_dir."""
    outcome = classifier.run(options, inputs)
    for name in _results(options.output_dir):
        path = os.path.join(options.output_dir, name)
        files.copy(path, os.path.join(output_dir, name))
    return outcome


def _results(folder: str) -> list[str]:
    paths = (files.find_in(folder, pattern) for pattern in _RESULT_FILES)
    return [*map(os.path.basename, itertools.chain(*paths))]


def _checked(
    planned: Sequence[ClassifierOptions], inputs: Inputs, may_train: bool
) -> Iterator[tuple[str, tuple[ClassifierOptions, RecordedRun]]]:
    """Yields the trials with what earlier processes recorded, by name.

    Raises ValueError for settings that cannot be trained.
    """
    for trial in planned:
        with_steps(trial.finetuning, inputs.train.count)
        facts = facts_of(trial, inputs)
        recorded = RecordedRun(trial.output_dir, _RECORD, facts)
        if not (recorded.result or may_train):
            raise ValueError(
                f"{trial.output_dir} holds no finished trial; give --do_train, "
                "or the flags of the trials that are there."
            )
        state = "done before" if recorded.result else "to do"
        yield f"{_name(trial)} ({state})", (trial, recorded)


def _finish(
    inputs: Inputs, options: ClassifierOptions, recorded: RecordedRun
) -> Trial:
    """Runs a trial, or reads what an earlier process has recorded."""

    def train() -> dict[str, Any]:
        try:
            outcome = classifier.run(options, inputs._replace(test={}))
        except FloatingPointError as error:  # raised by all workers alike
            logging.error("%s failed: %s", options.output_dir, error)
            return {"results": {}, "failure": str(error)}
        return {"results": outcome.results, "failure": ""}

    return Trial(options, **(recorded.result or recorded.run(train)))


def _of_one_model(options: ClassifierOptions) -> ClassifierOptions:
    """The options, with the folder of the chosen trial if there are trials."""
    folder = chosen_trial(options.output_dir)
    has_run = tf1.has_run(options.output_dir)
    is_chosen = folder != options.output_dir
    if options.do_train if is_chosen else not has_run and _begun(options):
        raise ValueError(
            f"{options.output_dir} holds trials; give their flags "
            "(--num_trials, --trial_...) to go on, or another --output_dir."
        )
    return options.replace(output_dir=folder)


def _name(trial: ClassifierOptions) -> str:
    return os.path.basename(trial.output_dir)


def _begun(options: ClassifierOptions) -> set[str]:
    """The names of the trials in output_dir."""
    found = files.find_in(options.output_dir, f"trial-*/{_RECORD}")
    return {os.path.basename(os.path.dirname(path)) for path in found}


def _choose_and_tell(trials: list[Trial], task: Task, folder: str) -> Trial:
    """Writes trials.tsv and trials.json, shows the settings, chooses."""
    metric = task.metrics[0]
    names = dict.fromkeys(n for trial in trials for n in flat(trial.results))
    columns = ["trial", *_COLUMNS, *names, "seconds", "failure"]
    rows = [dict.fromkeys(columns) | _row(trial) for trial in trials]
    cells = [columns, *([*row.values()] for row in rows)]
    files.write_text(os.path.join(folder, "trials.tsv"), tsv(cells))
    header = [*_COLUMNS[:-1], "median", "min", "max", "std", "trials"]
    table = list(summarize(trials, metric))
    logging.info("%s on the dev set:\n%s", metric, aligned([header, *table]))
    chosen = choose(trials, metric)
    # An earlier choice may have left them. They go before the new one is
    # written, because the command may be stopped before it is evaluated.
    stale = {x for trial in trials for x in _results(trial.options.output_dir)}
    stale -= {LABELS, *VOCABULARIES}  # all trials have the same
    for name in stale.union(["checkpoints.tsv"], task.answer_files):
        files.remove(os.path.join(folder, name))
    found = {
        "metric": metric,
        "chosen": _name(chosen.options),
        "value": chosen.value(metric),
        "settings": [dict(zip(header, row, strict=True)) for row in table],
        "trials": rows,
    }
    write_json(os.path.join(folder, "trials.json"), found)
    logging.info(
        "Chosen: %s, the best (%s = %.4f) of the setting with the best median.",
        *(_name(chosen.options), metric, chosen.value(metric)),
    )
    return chosen


def _row(trial: Trial) -> dict[str, Any]:
    """Column of trials.tsv -> the trial's cell."""
    setting = (*map(short, trial.setting), trial.options.find("seed"))
    return {
        "trial": _name(trial.options),
        **dict(zip(_COLUMNS, setting, strict=True)),
        **flat(trial.results),
        "seconds": trial.seconds,
        "failure": " ".join(trial.failure.split()),
    }
