"""What smaller models keep: quality against milliseconds and megabytes.

--output_dir gets smaller.md and smaller.png after each run. Runs may be stopped
and others may run beside them: the same command goes on.

--only=tags,similarity trains these for now, --only=costs measures milliseconds
of what the first seed has: all models in turns, on a machine that is idle.
"""

import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from absl import logging

from benchmarks import programs
from data.settings import Settings, optional, setting
from data.storage import files
from data.storage.json_files import read_json, write_json
from studies.engine.study_options import StudyData
from training import program
from training.config import flags

SEED = 12345
COSTS, RESULT, COSTS_FILE = "costs", "run.json", "costs.json"


class Task(NamedTuple):
    """A task: its data's flag, the metric that counts, and its settings."""

    title: str
    needs: str
    metric: str
    factor: float
    settings: dict[str, Any]


def _settings(rate, epochs, length, batch, **more):
    """The flags of a fine-tuning."""
    return {
        "learning_rate": rate,
        "num_train_epochs": epochs,
        "max_seq_length": length,
        "train_batch_size": batch,
        "predict_batch_size": 32,
        "group_by_length": True,
        "strip_checkpoint": True,
    } | more


# The settings of docs/results.md.
TASKS = {
    "tags": Task(
        *("parts of speech, accuracy", "conllu_dir", "token_accuracy", 100),
        _settings(1e-4, 3, 128, 32),
    ),
    "similarity": Task(
        *("STS-B, Spearman", "glue_dir", "spearman", 100),
        _settings(5e-5, 3, 128, 32),
    ),
    "spans": Task(
        *("SQuAD 1.1, F1", "squad_dir", "f1", 1),
        _settings(5e-5, 2, 384, 32, doc_stride=128, max_query_length=64),
    ),
    "choice": Task(
        *("CODAH, accuracy", "codah_dir", "accuracy", 100),
        _settings(5e-5, 3, 64, 16),
    ),
}


class Model(NamedTuple):
    """A teacher or student.

    `num_layers` 0 = all. `is_random`: its weights are drawn. `is_distilled`:
    the teacher's scores are half of its loss. `num_words` 0 = all.
    """

    title: str
    num_layers: int = 0
    is_random: bool = False
    is_distilled: bool = False
    num_words: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """What a model's cost depends on; its weights do not change it."""
        return self.num_layers, self.num_words


TEACHER = "teacher"
MODELS = {
    TEACHER: Model("teacher"),
    "copied_3": Model("3 layers", 3),
    "distilled_3": Model("3 layers, distilled", 3, is_distilled=True),
    "own_words_3": Model("3 layers, 8,000 words", 3, num_words=8000),
    "random_3": Model("3 layers, random", 3, is_random=True),
    "copied_2": Model("2 layers", 2),
    "distilled_2": Model("2 layers, distilled", 2, is_distilled=True),
}
# One of each size.
SIZES = (TEACHER, "copied_3", "own_words_3", "copied_2")


class SmallerOptions(Settings):
    """What is trained, and how often."""

    init_checkpoint: str = setting(
        help="Folder of the pretrained model, with its vocabulary."
    )
    output_dir: str = setting(help="Folder of the results and of all runs.")
    codah_dir: str | None = optional(
        "Folder of CODAH, for `choice`: codah_full_data.tsv."
    )
    num_seeds: int = setting(3, "Runs of each model.", least=1)
    only: tuple[str, ...] = setting(
        (), f"Only these for now: {', '.join(TASKS)}, {COSTS}. Default: all."
    )


def main() -> None:
    """Does what is not done yet, and reports after each run."""
    options, data = flags.read(SmallerOptions), flags.read(StudyData)
    known = (*TASKS, COSTS)
    programs.require_known("only", options.only, known)
    data.check_files()
    asked = options.only or known
    given = {n: _data_flags(n, options, data) for n in TASKS if n in asked}
    given = {name: found for name, found in given.items() if found}
    if not given and COSTS not in options.only:
        needs = [task.needs for n, task in TASKS.items() if n in asked]
        raise ValueError(f"give data of a task: --{', --'.join(needs)}.")
    program.load_tensorflow()
    from benchmarks import smaller_report

    folder = Path(options.output_dir)
    for task, found in given.items():
        sums = data.checksums(task)
        if task == "choice":
            paths = Path(options.codah_dir).glob("*full_data.tsv")
            sums = {path.name: files.sha256(str(path)) for path in paths}
        programs.require_same(folder / task, data=sums)
        for seed in range(SEED, SEED + options.num_seeds):
            for name in MODELS:
                run(task, name, seed, options, found)
                smaller_report.write(folder)
    if COSTS in asked:
        measure_costs(folder)
        smaller_report.write(folder)


def _data_flags(task, options, data):
    """The flags of a task's data; {} = they are not given."""
    if task == "choice":
        where = options.codah_dir
        return {"task_name": "CODAH", "data_dir": where} if where else {}
    from studies.engine.inputs import task_flags

    return task_flags(task, data) if data.has(task) else {}


def run(
    task: str,
    name: str,
    seed: int,
    options: SmallerOptions,
    data: dict[str, Any],
) -> None:
    """Makes a model, trains and scores it, unless that is done.

    The teacher of the seed comes first. `data` are flags.
    """
    from modeling.checkpoints.model_folder import weights_sha256

    place = place_of(options.output_dir, task, seed, name)
    model = MODELS[name]._replace(title="")._asdict()
    facts = {"model": model, "settings": TASKS[task].settings}
    if name == TEACHER:
        facts |= {"sha256": weights_sha256(options.init_checkpoint)}

    def train() -> dict[str, Any]:
        started = {"init_checkpoint": options.init_checkpoint}
        if name != TEACHER:
            teacher = place.parent / TEACHER / "run"
            started = _student(place / "start", teacher, MODELS[name], data)
        flags = TASKS[task].settings | data | started | {"seed": seed}
        return _train(task, place, flags, data)

    programs.run_once(place, facts, train, RESULT)


def place_of(folder: Path | str, task: str, seed: int, name: str) -> Path:
    """The folder of a run."""
    return Path(folder) / task / f"seed-{seed}" / name


def _student(folder, teacher, model, data):
    """Makes a student's first weights; returns flags of its training."""
    words = {}
    if model.num_words:
        text = folder.parent / "train.txt"
        files.write_text(str(text), "\n".join(_train_texts(data)) + "\n")
        words = {"keep_words": model.num_words, "input_file": text}
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped
    programs.run_with_log(
        folder.parent / "convert.log",
        "convert_checkpoint.py",
        model=teacher,
        keep_layers=model.num_layers,
        output_dir=folder,
        output_format="original",
        **words,
    )
    found = {
        "init_checkpoint": None if model.is_random else folder,
        "bert_config_file": folder / "bert_config.json",
        "vocab_file": folder / "vocab.txt",
    }
    return found | ({"teacher_dir": teacher} if model.is_distilled else {})


def _train_texts(data) -> Iterator[str]:
    """The texts that a task is trained on."""
    from data.squad.articles import SquadData
    from data.squad.examples import read_examples
    from data.tasks import get_task

    if "train_file" in data:
        articles = SquadData(data["train_file"]).read()
        for x in read_examples(articles, is_training=True):
            yield from (x.question_text, x.paragraph.context)
        return
    more = data.get("task_options", {})
    task = get_task(data["task_name"], data["data_dir"], **more)
    for x in task.examples("train"):
        yield " ".join(x.texts)


def _train(task, place, flags, data):
    """Trains and scores a model; returns its `scores` and `megabytes`."""
    import bert
    from benchmarks import litert
    from benchmarks.budget.tasks import run_task
    from training.devices import strategy

    output_dir, export = place / "run", {}
    if task != "choice":  # LiteRT does not have it
        export = {"do_export": True, "export_format": "litert"}
        export["export_dir"] = place / "litert"
    found = {"float32": run_task(output_dir, do_train=True, **export, **flags)}
    (weights,) = output_dir.glob("model.ckpt-*.data-*")
    sizes = {"float32": weights}
    if strategy.local_bfloat16().is_faster:
        found["bfloat16"] = run_task(output_dir, precision="bfloat16", **data)
    if export:
        lite = lite_files(place)
        sizes |= lite
        said = read_json(str(output_dir / "task.json"))
        model = bert.load(str(lite["int8"]))
        found["int8"] = litert.scores(model, said, data)
    metric, factor = TASKS[task].metric, TASKS[task].factor
    return {
        "scores": {n: factor * float(x[metric]) for n, x in found.items()},
        "megabytes": {n: x.stat().st_size / 1e6 for n, x in sizes.items()},
    }


def lite_files(place: Path) -> dict[str, Path]:
    """`float` and `int8` -> the LiteRT file of a run; {} = it has none."""
    from training.export import litert_model

    found = litert_model.find(str(place / "litert"))
    if not found:
        return {}
    path = Path(found)
    return {"float": path.with_name(litert_model.FLOAT), "int8": path}


def measure_costs(folder: Path) -> None:
    """Writes costs.json: milliseconds of a model of each size.

    They take turns, so that their ratios hold on a machine that has other work.
    All are of the first task that is done, because its head costs little.
    """
    import bert
    from benchmarks import litert
    from training.devices import strategy

    of_tasks = ({n: place_of(folder, t, SEED, n) for n in SIZES} for t in TASKS)
    done = (
        x for x in of_tasks if all((p / RESULT).exists() for p in x.values())
    )
    places, models = next(done, {}), {}
    if not places:
        logging.warning("Nothing is timed: no task has all sizes yet.")
        return
    forms = {"float32": "float32"}
    if strategy.local_bfloat16().is_faster:
        forms["bfloat16"] = "mixed_bfloat16"
    for name, place in places.items():
        for form, dtype in forms.items():
            models[name, form] = bert.load(str(place / "run"), dtype=dtype)
        for form, path in lite_files(place).items():
            models[name, form] = bert.load(str(path))
    said = read_json(str(places[TEACHER] / "run/task.json"))
    logging.info("Timing %d models of %s.", len(models), said["task_name"])
    rows = {name: {} for name in SIZES}
    for (name, form), times in litert.milliseconds(models, said).items():
        medians = {kind: statistics.median(x) for kind, x in times.items()}
        rows[name][form] = medians
    costs = {"processor": programs.processor(), "milliseconds": rows}
    write_json(str(folder / COSTS_FILE), costs)


if __name__ == "__main__":
    flags.define(SmallerOptions)
    flags.define(StudyData, only=["conllu_dir", "glue_dir", "squad_dir"])
    program.run(main)
