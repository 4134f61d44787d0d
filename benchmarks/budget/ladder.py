"""From the original's recipe to --recipe=budget: what lowers the loss.

Each rung is pretrained for the same time, by the number of updates that fit
into it: the time of an update is measured first, on the idle machine. So a run
may be stopped, and others may run beside it; the same command goes on.
--output_dir gets ladder.md, ladder.tsv and ladder.png, which show all that is
done. --only=no_dropout,batch_64 does these rungs for now, --only=tasks the
fine-tunings from the rungs `original`, `no_dropout` and `quarter`. The
original's program (`make peers-original`) is timed beside ours, and evaluates
the checkpoint of the last rung.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.budget.rungs import BASELINE, LAST, QUARTER, RUNGS  # noqa: E402
from benchmarks.programs import require_known  # noqa: E402
from data.settings import Settings, setting  # noqa: E402
from data.storage import files  # noqa: E402
from studies.engine.study_options import StudyData  # noqa: E402
from training import program  # noqa: E402
from training.config import flags  # noqa: E402

_CONFIG = "configs/uncased_L-4_H-256_A-4.json"
_TASKS, _TASK_SEEDS = "tasks", 3
_DATA = ("text", "conllu_dir", "glue_dir", "squad_dir")


class LadderOptions(Settings):
    """What is compared, and for how long."""

    output_dir: str = setting(help="Folder of the results and of all runs.")
    vocab_file: str = setting(help="The vocabulary.")
    bert_config_file: str = setting(_CONFIG, "Sizes of the model.")
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
    from benchmarks.budget import report
    from benchmarks.budget.runs import SEED, Runs, require_original

    require_original()
    folder = Path(options.output_dir)
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
    from benchmarks.budget.runs import SEED

    compared = (BASELINE, LAST, QUARTER)
    names = [rung.name for rung in compared]
    if lacking := [r.name for r in compared if SEED not in runs.found(r)]:
        raise ValueError(
            f"{folder}: the tasks start from {', '.join(names)}; not trained "
            f"yet: {', '.join(lacking)}. Train first, with "
            f"--only={','.join(lacking)}."
        )
    for task in filter(data.has, tasks.NAMES):
        for rung in compared:
            for seed in range(SEED, SEED + _TASK_SEEDS):
                runs.finetune(rung, task, data, seed)
                report.write(folder, runs)


if __name__ == "__main__":
    flags.define(LadderOptions)
    flags.define(StudyData, only=_DATA)
    program.run(main)
