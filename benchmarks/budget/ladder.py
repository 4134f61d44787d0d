"""From the original's recipe to --recipe=budget: what lowers the loss.

--output_dir gets ladder.md and ladder.png, which show all that is done.
--only=no_dropout,batch_64 does these rungs for now. It needs `make
peers-original`.
"""

from pathlib import Path

from benchmarks.budget.rungs import RUNGS
from benchmarks.programs import python_of, require_known
from data.settings import Settings, setting
from data.storage import files
from training import program
from training.config import flags


class LadderOptions(Settings):
    """What is compared, and for how long."""

    output_dir: str = setting(help="Folder of the results and of all runs.")
    text: str = setting(help="Text to train on; may be gzipped.")
    vocab_file: str = setting(help="The vocabulary.")
    minutes: float = setting(
        5.0, "Minutes of pretraining for each rung.", above=0
    )
    baseline_minutes: float = setting(
        60.0,
        "Minutes for the original's recipe, which the rungs are compared with.",
        above=0,
    )
    only: tuple[str, ...] = setting((), "Only these rungs, for now.")


def main() -> None:
    """Does what is not done yet, and reports after each run."""
    options = flags.read(LadderOptions)
    check(options)
    program.load_tensorflow()
    from benchmarks.budget import report
    from benchmarks.budget.runs import SEED, Runs

    runs = Runs(options)
    chosen = [r for r in RUNGS if not options.only or r.name in options.only]
    for rung in chosen:
        runs.phases(rung)  # times its updates, while nothing else runs
    for rung in chosen:
        for seed in range(SEED, SEED + rung.num_seeds):
            runs.train(rung, seed)
            report.write(Path(options.output_dir), runs)


def check(options: LadderOptions) -> None:
    """Refuses what is not there, before anything runs."""
    files.require_file(options.text, "text")
    files.require_file(options.vocab_file, "vocabulary")
    require_known("only", options.only, [rung.name for rung in RUNGS])
    python = python_of("original")
    if not python.exists():
        raise ValueError(
            f"{python} does not exist; run `make peers-original` first: the "
            "original's program is timed beside this project's."
        )


if __name__ == "__main__":
    flags.define(LadderOptions)
    program.run(main)
