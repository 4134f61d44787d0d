r"""Averages the answers of several runs of run_squad.py: the paper's ensemble.

  python ensemble_squad.py --runs=/tmp/squad_1,/tmp/squad_2,/tmp/squad_3 \
    --predict_file=dev-v1.1.json --output_dir=/tmp/ensemble

  python ensemble_squad.py --runs=/tmp/squad2_1,/tmp/squad2_2 \
    --version_2_with_negative --find_null_threshold \
    --predict_file=dev-v2.0.json --output_dir=/tmp/ensemble2

Each run is an --output_dir of run_squad.py with its predictions of the same
file; they may differ in --seed alone. The ensemble has the same files, and
metrics.json if --predict_file is given.
"""

from absl import logging

from data.squad.ensembling import EnsembleOptions, average_runs
from training import program
from training.config import flags


def main() -> None:
    """Averages the runs and logs the scores."""
    threshold = flags.given("null_score_diff_threshold")
    options = flags.read(EnsembleOptions, null_score_diff_threshold=threshold)
    for name, value in average_runs(options).items():
        logging.info("%s = %.6g", name, value)


if __name__ == "__main__":
    flags.define(EnsembleOptions, null_score_diff_threshold=0.0)
    program.run(main)
