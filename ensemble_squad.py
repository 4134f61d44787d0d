r"""Averages the answers of several runs of run_squad.py: the paper's ensemble.

  python ensemble_squad.py --runs=/tmp/squad_1,/tmp/squad_2,/tmp/squad_3 \
    --predict_file=dev-v1.1.json --output_dir=/tmp/ensemble

  python ensemble_squad.py --runs=/tmp/squad2_1,/tmp/squad2_2 \
    --version_2_with_negative --find_null_threshold \
    --predict_file=dev-v2.0.json --output_dir=/tmp/ensemble2

Each run is an --output_dir of run_squad.py with its predictions of the same
file; runs that differ by --seed alone will do. Written are the same files, and
metrics.json if --predict_file is given.
"""

import dataclasses

from absl import logging

from data.settings import Settings, setting
from data.squad.articles import SquadData
from data.squad.ensemble_files import average_runs
from training import program
from training.config import flags


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnsembleOptions(Settings):
    """Which runs are averaged, and how answers are chosen."""

    runs: list[str] = setting(help="Folders of the runs.")
    output_dir: str = setting(help="Folder of the results.")
    predict_file: str = setting(
        "", "SQuAD's JSON that the runs answered, to score by."
    )
    version_2_with_negative: bool = setting(
        False, "Whether questions may have no answer, as in SQuAD 2.0."
    )
    null_score_diff_threshold: float | None = setting(
        None,
        "Answer nothing if the average score of no answer, less that of the "
        "best, is above this.",
    )
    find_null_threshold: bool = setting(
        False, "Use the threshold that is best for F1 on --predict_file."
    )

    def _check(self) -> None:
        threshold = self.null_score_diff_threshold
        if self.find_null_threshold:
            if not (self.version_2_with_negative and self.predict_file):
                raise ValueError(
                    "--find_null_threshold needs --version_2_with_negative and "
                    "--predict_file."
                )
            if threshold is not None:
                raise ValueError(
                    "--find_null_threshold and --null_score_diff_threshold="
                    f"{threshold} exclude each other; give one of them."
                )
        if threshold is not None and not self.version_2_with_negative:
            raise ValueError(
                f"--null_score_diff_threshold={threshold} needs "
                "--version_2_with_negative."
            )


def define_flags() -> None:
    """Defines the flags; the original release has no such program."""
    flags.define(EnsembleOptions, null_score_diff_threshold=0.0)


def main() -> None:
    """Averages the runs and logs the scores."""
    options = flags.read(
        EnsembleOptions,
        null_score_diff_threshold=flags.given("null_score_diff_threshold"),
    )
    results = average_runs(
        options.runs,
        options.output_dir,
        data=SquadData(options.predict_file) if options.predict_file else None,
        version_2_with_negative=options.version_2_with_negative,
        null_score_diff_threshold=options.null_score_diff_threshold or 0.0,
        find_null_threshold=options.find_null_threshold,
    )
    for name, value in results.items():
        logging.info("%s = %.6g", name, value)


if __name__ == "__main__":
    define_flags()
    program.run(main)
