"""What an hour of pretraining is good for: scores of tasks, in one table.

--models and --tasks do a part for now; the same command goes on. --output_dir
gets hour.md, hour.tsv and hour.png of all that is done.
"""

import csv
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.budget.rungs import BASELINE
from benchmarks.programs import (
    require_known,
    require_same,
    run_once,
    run_with_log,
)
from data.settings import Settings, optional, setting
from data.storage import files
from studies.engine.study_options import StudyData
from training import program
from training.config import flags

CONFIG = "configs/uncased_L-4_H-256_A-4.json"
_LENGTH, _PREDICTIONS = 128, 20
_RECORDS = {
    "records": "pairs",
    "masking": "dynamic",
    "max_seq_length": _LENGTH,
}
_TFIDF = "tf-idf"
# Sentences of the train set of each size of the task.
SUBJECTIVITY = {f"subjectivity_{n}": n for n in (500, 2000, 8000)}
_OF_SENTENCES = {"head": "mean", "num_train_epochs": 4.0, "learning_rate": 1e-4}
# Task -> head, rate and epochs. Those of tags and film sentences were searched
# for random weights, those of pairs and questions for pretrained ones.
_SETTINGS = {
    **dict.fromkeys(SUBJECTIVITY, _OF_SENTENCES),
    "tags": {"num_train_epochs": 5.0, "learning_rate": 5e-4},
    "similarity": {"num_train_epochs": 4.0, "learning_rate": 1e-4},
    "spans": {"doc_stride": 64, "num_train_epochs": 2.0, "learning_rate": 1e-4},
}
TASKS = tuple(_SETTINGS)
_FINETUNING = {
    "max_seq_length": _LENGTH,
    "train_batch_size": 32,
    "group_by_length": True,
    "strip_checkpoint": True,
    "precision": "auto",
}


class HourOptions(Settings):
    """What is compared."""

    output_dir: str = setting(help="Folder of the results and of all runs.")
    vocab_file: str = setting(help="The vocabulary.")
    texts: tuple[str, ...] = setting(
        help="Texts to pretrain on; their names up to the first _ or dot name "
        "the models."
    )
    minutes: tuple[int, ...] = setting((3, 15, 60), "Minutes of pretraining.")
    updates_per_minute: float = setting(
        help="Updates of --recipe=budget in a minute of this machine, idle; "
        "the progress line of a run says it.",
        above=0,
    )
    original_updates: int = setting(
        0,
        "Updates of the original's program in its hour; 0 = it is left out.",
    )
    subjectivity_dir: str | None = optional(
        "Folder of train.csv and dev.csv, with the columns text, label."
    )
    models: tuple[str, ...] = setting((), "Only these models, for now.")
    tasks: tuple[str, ...] = setting((), "Only these tasks, for now.")


def main() -> None:
    """Does what is not done yet, and reports after each run."""
    options, data = flags.read(HourOptions), flags.read(StudyData)
    data.check_files()
    for path in (*options.texts, options.vocab_file):
        files.require_file(path, "text or vocabulary")
    program.load_tensorflow()
    from benchmarks.budget import hour_report, tasks

    folder, models = Path(options.output_dir), _models(options, data)
    require_known("models", options.models, models)
    require_known("tasks", options.tasks, TASKS)
    sums = tasks.checksums(data)
    if place := options.subjectivity_dir:
        paths = (f"{place}/{part}.csv" for part in ("train", "dev"))
        sums["subjectivity_dir"] = [*map(files.sha256, paths)]
    require_same(folder, **sums)
    for name, task in itertools.product(models, _tasks(options, data)):
        if options.models and name not in options.models:
            continue
        if name == _TFIDF and task not in SUBJECTIVITY:
            continue
        place = folder / name / task
        given = (place, task, models[name], options, data)
        run = functools.partial(_values, *given)
        run_once(place, _SETTINGS[task], run, "result.json")
        hour_report.write(folder, tuple(models), TASKS)


def _tasks(options: HourOptions, data: StudyData) -> Iterator[str]:
    """Yields the tasks whose data are given."""
    for task in options.tasks or TASKS:
        is_own = task in SUBJECTIVITY
        if options.subjectivity_dir if is_own else data.has(task):
            yield task


def _models(
    options: HourOptions, data: StudyData
) -> dict[str, Callable[[], Mapping[str, Any]]]:
    """Returns name of a model -> function that makes it.

    The function returns the flags with which the model is fine-tuned.
    """
    own = {"vocab_file": options.vocab_file, "bert_config_file": CONFIG}
    models = {_TFIDF: dict, "random": lambda: own}

    def add(name, text, steps, recipe):
        if name in models:
            raise ValueError(f"--texts: two make {name}; rename one of them.")
        folder = Path(options.output_dir, name)
        given = (folder, text, steps, recipe, own)
        models[name] = functools.partial(_pretrain, *given)

    if options.original_updates:
        text, steps = options.texts[0], options.original_updates
        add("original", text, steps, "original")
    for text, minutes in itertools.product(options.texts, options.minutes):
        steps = round(minutes * options.updates_per_minute)
        name = f"{Path(text).name.split('.')[0].split('_')[0]}_{minutes}"
        add(name, text, steps, "budget")
    if data.init_checkpoint:
        models["given"] = lambda: {"init_checkpoint": data.init_checkpoint}
    return models


def _pretrain(
    folder: Path, text: str, steps: int, recipe: str, own: Mapping[str, str]
) -> dict[str, Any]:
    """Pretrains a model unless it is done; returns its flags."""
    from benchmarks.budget.inputs import Inputs

    shared = folder.parent / Path(text).name.split(".")[0]
    inputs = Inputs(shared, text, own["vocab_file"], own["bert_config_file"])
    inputs.check()
    given = {"recipe": recipe}
    if recipe == "original":
        rate = BASELINE.settings["learning_rate"]
        given = {"learning_rate": rate, "num_warmup_steps": steps // 10}
    return pretrain(folder, inputs, num_train_steps=steps, **own, **given)


def pretrain(folder: Path, inputs, **given: Any) -> dict[str, Any]:
    """Pretrains in a folder unless it is done; returns the model's flags."""
    model = folder / "model"
    if not (model / "eval_results.txt").exists():
        run_with_log(
            folder / "pretraining.log",
            "run_pretraining.py",
            **given,
            do_train=True,
            do_eval=True,
            input_file=inputs.records(_RECORDS, "train"),
            eval_file=inputs.records(_RECORDS, "eval"),
            eval_batch_size=64,
            max_eval_steps=26,
            output_dir=model,
            masking=_RECORDS["masking"],
            max_seq_length=_LENGTH,
            max_predictions_per_seq=_PREDICTIONS,
            keep_checkpoint_max=1,
        )
    return {"init_checkpoint": model}


def _values(
    place: Path,
    task: str,
    make: Callable[[], Mapping[str, Any]],
    options: HourOptions,
    data: StudyData,
) -> dict[str, list[float]]:
    """Scores the model that `make` makes with each seed, from 0 to 100."""
    model = {**make()}
    if task in SUBJECTIVITY:
        data_dir = _subset(place, SUBJECTIVITY[task], options)
        if not model:
            return {"values": [_tfidf(data_dir)]}
        model |= {"task_name": "csv", "data_dir": data_dir}
    return {"values": [*finetune(place, task, model, data)]}


def finetune(
    place: Path,
    task: str,
    model: Mapping[str, Any],
    data: StudyData,
    num_seeds: int = 3,
) -> Iterator[float]:
    """Fine-tunes a model with each seed; yields its scores."""
    from benchmarks.budget import tasks

    given = {**_FINETUNING, **model, **_SETTINGS[task]}
    for seed in range(tasks.SEED, tasks.SEED + num_seeds):
        run = place / f"run_{seed}"
        if task in SUBJECTIVITY:
            found = tasks.run_task(run, do_train=True, seed=seed, **given)
            yield 100 * found["accuracy"]
        else:
            yield tasks.finetune(task, data, run, seed, **given)


def _subset(place: Path, count: int, options: HourOptions) -> Path:
    """Writes the first rows of the train set, and the dev set."""
    folder = place / "data"
    folder.mkdir(parents=True, exist_ok=True)
    for part, most in ("train", count), ("dev", None):
        with Path(options.subjectivity_dir, f"{part}.csv").open() as file:
            rows = list(csv.reader(file))
        with (folder / f"{part}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows[: most and most + 1])
    return folder


def _tfidf(data_dir: Path) -> float:
    """Accuracy of logistic regression on words and pairs of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    from data.tasks import get_task

    data = get_task("csv", str(data_dir))
    train, dev = (list(data.examples(part)) for part in ("train", "dev"))
    words = TfidfVectorizer(ngram_range=(1, 2))
    model = LogisticRegression(C=4, max_iter=1000)
    known = words.fit_transform([x.text_a for x in train])
    model.fit(known, [x.label for x in train])
    asked = words.transform([x.text_a for x in dev])
    return 100 * model.score(asked, [x.label for x in dev])


if __name__ == "__main__":
    flags.define(HourOptions)
    flags.define(
        StudyData,
        only=["init_checkpoint", "conllu_dir", "glue_dir", "squad_dir"],
    )
    program.run(main)
