"""From the original's recipe to --recipe=budget: what lowers the loss.

--output_dir gets ladder.md, ladder.tsv and ladder.png, which show all that is
done. --only=no_dropout,batch_64 does these rungs for now, --only=tasks the
fine-tunings from the rungs `original`, `no_dropout` and `quarter`. It needs
`make peers-original`.
"""

from pathlib import Path

from benchmarks.budget.hour import CONFIG
from benchmarks.budget.rungs import BASELINE, LAST, QUARTER, RUNGS
from benchmarks.programs import require_known, require_same
from data.settings import Settings, setting
from data.storage import files
from studies.engine.study_options import StudyData
from training import program
from training.config import flags

_TASKS = "tasks"
_DATA = ("text", "conllu_dir", "glue_dir", "squad_dir")


class LadderOptions(Settings):
    """What is compared, and for how long."""

    output_dir: str = setting(help="Folder of the results and of all runs.")
    vocab_file: str = setting(help="The vocabulary.")
    bert_config_file: str = setting(CONFIG, "Sizes of the model.")
    minutes: float = setting(
        5.0, "Minutes of pretraining for each rung.", above=0
    )
    baseline_minutes: float = setting(
        60.0,
        "Minutes for the original's recipe, which the rungs are compared with.",
        above=0,
    )
    only: tuple[str, ...] = setting(
        (), f"Only these rungs, for now; {_TASKS} = the fine-tunings."
    )


def main() -> None:
    """Does what is not done yet, and reports after each run."""
    options, data = flags.read(LadderOptions), flags.read(StudyData)
    _check(options, data)
    program.load_tensorflow()
    from benchmarks.budget import report, tasks
    from benchmarks.budget.runs import SEED, Runs, require_original

    require_original()
    folder = Path(options.output_dir)
    require_same(folder, **tasks.checksums(data))
    runs = Runs(folder, options, data.text)
    chosen = [r for r in RUNGS if not options.only or r.name in options.only]
    for rung in chosen:
        runs.phases(rung)  # times its updates, while nothing else runs
    for rung in chosen:
        for seed in range(SEED, SEED + rung.num_seeds):
            runs.train(rung, seed)
            report.write(folder, runs)
    if LAST in chosen:
        runs.evaluate_twice(LAST)
        report.write(folder, runs)
    if not options.only or _TASKS in options.only:
        _finetune(folder, runs, data)


def _check(options, data):
    """Refuses what is not there, before anything runs."""
    if not data.text:
        raise ValueError("--text is needed: what the models are trained on.")
    data.check_files()
    files.require_file(options.vocab_file, "vocabulary")
    files.require_file(options.bert_config_file, "configuration")
    known = [*(rung.name for rung in RUNGS), _TASKS]
    require_known("only", options.only, known)


def _finetune(folder, runs, data):
    """Fine-tunes the baseline and the recipe on the tasks given."""
    from benchmarks.budget import report, tasks

    compared = (BASELINE, LAST, QUARTER)
    names = [rung.name for rung in compared]
    if lacking := [r.name for r in compared if tasks.SEED not in runs.found(r)]:
        raise ValueError(
            f"{folder}: the tasks start from {', '.join(names)}; not trained "
            f"yet: {', '.join(lacking)}. Train first, with "
            f"--only={','.join(lacking)}."
        )
    for task in filter(data.has, tasks.NAMES):
        for rung in compared:
            for seed in range(tasks.SEED, tasks.SEED + tasks.NUM_SEEDS):
                runs.finetune(rung, task, data, seed)
                report.write(folder, runs)


if __name__ == "__main__":
    flags.define(LadderOptions)
    flags.define(StudyData, only=_DATA)
    program.run(main)
