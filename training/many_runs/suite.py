"""Several tasks by one command, such as all of GLUE (Table 1 of the paper).

Each task is a separate run in output_dir/TASK.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from absl import logging

from data.storage import files, locks
from data.storage.json_files import find_json, write_json
from data.tables import aligned, tsv
from data.tasks import Task, get_task
from modeling.checkpoints import model_folder, tf1
from training.config.finetuning_options import (
    DIAGNOSTIC,
    GLUE,
    ClassifierOptions,
    TrialOptions,
    task_names,
)
from training.devices.strategy import create_strategy, num_workers
from training.many_runs import trials
from training.runs.classifier import Outcome
from training.start import found_files

# The metric of Table 1 where it is not the main metric of the task.
_METRICS = {"stsb": "spearman"}
# Task -> the options of its run.
Tasks = dict[str, ClassifierOptions]
# The average of the paper excludes WNLI, whose dev set contradicts its train
# set.
_NOT_AVERAGED = "WNLI"


class Score(NamedTuple):
    """A task's score on a dev set, at most 1; `task` is GLUE's spelling."""

    task: str
    set_name: str
    metric: str
    value: float
    step: int


def run(options: ClassifierOptions, trial_options: TrialOptions) -> None:
    """Runs a task, or each of several in its own folder.

    Args:
      options: the options of each task. `task_name` is one task, several
        separated by commas, or `GLUE`. For several tasks, `data_dir` holds
        their folders.
      trial_options: how often to train each task.

    Raises:
      ValueError: a task failed; it is raised after the others have finished.
        Flags or folders that do not fit are refused before the first task.
      OSError, FloatingPointError: a single task failed; with several workers,
        any task.
    """
    names = task_names(options.task_name)
    if len(names) < 2:
        trials.run(options, trial_options)
        return
    tasks, before = _tasks(options, names), _scores_in(options.output_dir)
    asked = tasks.pop(DIAGNOSTIC, None)
    # Check all tasks before the first one, which may take hours.
    for task_options in tasks.values():
        trials.check(task_options, trial_options)

    def train(task_options: ClassifierOptions) -> Outcome:
        with locks.sole_use(task_options.output_dir):
            return trials.run(task_options, trial_options)

    outcomes, failures = _each(tasks, train, options)
    scores = list(_scores(tasks, outcomes))
    if asked and "MNLI" in outcomes:
        asked = asked.replace(init_checkpoint=outcomes["MNLI"].weights)
        answered, failed = _each({DIAGNOSTIC: asked}, trials.run_once, options)
        outcomes |= answered
        failures |= failed
    elif DIAGNOSTIC in names and options.do_predict:
        failures[DIAGNOSTIC] = "MNLI failed, whose model answers it."
    _gather(options, tasks, outcomes)
    # A command that scores nothing does not change the table.
    if scores or failures:
        replaced = {score.task for score in scores}
        if options.do_eval:
            replaced |= failures.keys()
        kept = [x for x in before if x.task not in replaced]
        write_table(options.output_dir, [*kept, *scores], failures, names)
    if failures:
        raise ValueError(
            f"{len(failures)} of {len({*tasks, *failures})} tasks failed: "
            + "; ".join(f"{name}: {text}" for name, text in failures.items())
            + " All others are finished; the same command repeats these."
        )


def _each(
    tasks: Tasks,
    run: Callable[[ClassifierOptions], Outcome],
    options: ClassifierOptions,
) -> tuple[dict[str, Outcome], dict[str, str]]:
    """Runs tasks; one that fails does not stop the others.

    Returns task -> what `run` returned, and task -> why it failed.

    With several workers, the others may still be running the task that failed
    here. Only a loss that diverges fails on all of them.
    """
    device = options.finetuning.device
    may_fail = (FloatingPointError,)
    if num_workers(create_strategy(device)) == 1:
        may_fail += (ValueError, OSError, *files.op_errors())
    outcomes, failures = {}, {}
    for name in trials.one_by_one("Task", tasks, device, failures):
        try:
            outcomes[name] = run(tasks[name])
        except files.lost_machine_errors():
            raise  # the next task would fail, too
        except may_fail as error:
            logging.error("%s failed: %s", name, error)
            failures[name] = str(error)
    return outcomes, failures


def _tasks(options: ClassifierOptions, names: Sequence[str]) -> Tasks:
    """Task -> its options, for those that can run; checks all of them."""
    flag, data_dir = f"--task_name={options.task_name}", options.data_dir
    if tf1.has_run(model_folder.chosen_trial(options.output_dir)):
        raise ValueError(
            f"--output_dir={options.output_dir} holds a run of one task, but "
            f"{flag} names several; give another --output_dir."
        )
    data_set = options.task_options.get("tfds")
    if len({*names}) < len(names):
        raise ValueError(f"{flag}: expected each task once.")
    if data_set and not data_dir:
        raise ValueError(
            f"--tfds={data_set} is one data set, but {flag} names several "
            "tasks; give --tfds='', which takes each from its own."
        )
    if DIAGNOSTIC in names and "MNLI" not in names:
        raise ValueError(f"{flag}: MNLI's model answers AX; name MNLI, too.")
    found = dict.fromkeys(name for name in names if name != DIAGNOSTIC)
    if data_dir:
        found = _folders_in(data_dir, list(found))
    tasks = {name: _options_of(options, name, x) for name, x in found.items()}
    if options.do_predict and "MNLI" in tasks:
        folder = data_dir and _diagnostic_folder(data_dir, found["MNLI"])
        if folder or not data_dir:
            tasks[DIAGNOSTIC] = _options_of(options, DIAGNOSTIC, folder)
        elif DIAGNOSTIC in names:  # GLUE does not require it
            raise FileNotFoundError(
                f"--data_dir={data_dir} has no diagnostic.tsv for {flag}, "
                "there or in AX, diagnostic or MNLI; add it, or leave AX out."
            )
    return tasks


def _folders_in(data_dir: str, names: Sequence[str]) -> dict[str, str]:
    """Task -> its folder in data_dir; only of GLUE some may be missing."""
    found = {name: _folder(data_dir, name) for name in names}
    missing = [name for name, folder in found.items() if not folder]
    if missing:
        text = f"--data_dir={data_dir} has no folder {', '.join(missing)}"
        if len(missing) == len(names) or names != list(GLUE):
            raise FileNotFoundError(
                f"{text}; expected one a task, such as {names[0]}/train.tsv."
            )
        logging.warning("%s: left out.", text)
    return {name: folder for name, folder in found.items() if folder}


def _task(options: ClassifierOptions) -> Task:
    return get_task(options.task_name, options.data_dir, **options.task_options)


def _folder(data_dir: str, name: str) -> str | None:
    """The folder of a task; its name may be written SST-2 or sst2."""
    for path in files.find_in(data_dir, "*"):
        if _key(os.path.basename(path)) == _key(name) and files.is_folder(path):
            return path
    return None


def _key(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _options_of(
    options: ClassifierOptions, name: str, folder: str | None
) -> ClassifierOptions:
    changes = {"output_dir": os.path.join(options.output_dir, name)}
    if name == DIAGNOSTIC:  # MNLI's model, as it was chosen, answers it
        changes |= {"do_train": False, "do_eval": False, "calibrate": False}
        changes |= {"eval_checkpoints": "last", "early_stopping_patience": 0}
        changes |= {"explain_errors": None, "save_best": ""}
        changes["init_checkpoint"] = os.path.join(options.output_dir, "MNLI")
    return options.replace(task_name=name, data_dir=folder, **changes)


def _scores(tasks: Tasks, outcomes: Mapping[str, Outcome]) -> Iterator[Score]:
    """Yields the columns of Table 1: MNLI has two."""
    for name, outcome in outcomes.items():
        metric = _METRICS.get(_key(name), _task(tasks[name]).metrics[0])
        for set_name, values in outcome.results.items():
            yield Score(name, set_name, metric, values[metric], outcome.step)


def _scores_in(output_dir: str) -> list[Score]:
    """The scores of earlier commands for other tasks of the folder."""
    path = os.path.join(output_dir, found_files.TABLE)
    scores = find_json(path, ("scores",)).get("scores", [])
    try:
        return [Score(**{**x, "value": float(x["value"])}) for x in scores]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path} is damaged; remove it.") from None


def _diagnostic_folder(data_dir: str, mnli_folder: str) -> str | None:
    """The folder of diagnostic.tsv, which differs between releases of GLUE."""
    places = [_folder(data_dir, name) for name in (DIAGNOSTIC, "diagnostic")]
    places = filter(None, (*places, mnli_folder, data_dir))
    path = files.first_of(["diagnostic.tsv"], *places)
    return path and os.path.dirname(path)


def _gather(
    options: ClassifierOptions, tasks: Tasks, outcomes: Mapping[str, Outcome]
) -> None:
    """Copies the files for the GLUE server into one folder, if it predicts."""
    output_dir = options.output_dir
    target = os.path.join(output_dir, "submission")
    if not options.do_predict:
        if options.do_train and files.exists(target):
            logging.warning(
                "%s is of an earlier command; --do_predict renews it.", target
            )
        return
    gathered = []
    names = {name: _task(one).submission_files for name, one in tasks.items()}
    if "MNLI" in tasks:
        names[DIAGNOSTIC] = get_task(DIAGNOSTIC, output_dir).submission_files
    for name, of_sets in names.items():
        for file_name in of_sets.values():
            path = os.path.join(output_dir, name, file_name)
            place = os.path.join(target, file_name)
            if name in outcomes and files.exists(path):
                files.copy(path, place)
                gathered.append(file_name)
            else:
                files.remove(place)  # an earlier model's
    logging.info("%s: %s", target, ", ".join(gathered) or "nothing")


def average(scores: Sequence[Score]) -> float | None:
    """Averages the columns of Table 1: MNLI has two, WNLI is left out.

    Source: the paper's Table 1.
    """
    values = [score.value for score in scores if score.task != _NOT_AVERAGED]
    return sum(values) / len(values) if values else None


def write_table(
    output_dir: str,
    scores: Sequence[Score],
    failures: Mapping[str, str],
    names: Sequence[str],
) -> None:
    """Writes glue.tsv and glue.json, and logs the table."""
    scores = sorted(scores, key=lambda x: [*GLUE, x.task].index(x.task))
    ran = dict.fromkeys(score.task for score in scores)
    missing = [x for x in names if x not in (*ran, DIAGNOSTIC)]
    mean = average(scores)
    rows = [["task", "dev set", "metric", "score x 100", "step"]]
    for task, set_name, metric, value, step in scores:
        rows.append([task, set_name, metric, f"{100 * value:.1f}", step])
    if mean is not None:
        rows.append(["average", "", "", f"{100 * mean:.1f}", None])
    files.write_text(os.path.join(output_dir, "glue.tsv"), tsv(rows))
    found = {
        "scores": [score._asdict() for score in scores],
        "average": mean,
        "num_tasks": len(ran),
        "missing": missing,
        "failures": dict(failures),
    }
    write_json(os.path.join(output_dir, found_files.TABLE), found)
    notes = ""
    if missing:
        notes = f"\n({len(ran)} of {len(ran) + len(missing)} tasks)"
    if _NOT_AVERAGED in ran:
        notes += "\n(WNLI is not in the average, as in the paper)"
    logging.info("\n%s%s", aligned(rows), notes)
