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

from absl import flags, logging

from data.squad.articles import SquadData
from data.squad.ensemble_files import average_runs
from training import program

FLAGS = flags.FLAGS


def define_flags() -> None:
    """All of them are new: the original has no such program."""
    flags.DEFINE_list("runs", None, "Folders of the runs.")
    flags.DEFINE_string("output_dir", None, "Folder of the results.")
    flags.DEFINE_string(
        "predict_file", "", "SQuAD's JSON that the runs answered, to score by."
    )
    flags.DEFINE_bool(
        "version_2_with_negative",
        False,
        "Whether questions may have no answer, as in SQuAD 2.0.",
    )
    flags.DEFINE_float(
        "null_score_diff_threshold",
        0.0,
        "Answer nothing if the average score of no answer, less that of the "
        "best, is above this.",
    )
    flags.DEFINE_bool(
        "find_null_threshold",
        False,
        "Use the threshold that is best for F1 on --predict_file.",
    )


def main() -> None:
    """Turns the flags into one call."""
    _check_flags()
    results = average_runs(
        FLAGS.runs,
        FLAGS.output_dir,
        data=SquadData(FLAGS.predict_file) if FLAGS.predict_file else None,
        version_2_with_negative=FLAGS.version_2_with_negative,
        null_score_diff_threshold=FLAGS.null_score_diff_threshold,
        find_null_threshold=FLAGS.find_null_threshold,
    )
    for name, value in results.items():
        logging.info("%s = %.6g", name, value)


def _check_flags() -> None:
    """Refuses flags that would have no effect."""
    threshold = FLAGS["null_score_diff_threshold"]
    if FLAGS.find_null_threshold:
        if not (FLAGS.version_2_with_negative and FLAGS.predict_file):
            raise ValueError(
                "--find_null_threshold needs --version_2_with_negative and "
                "--predict_file."
            )
        if threshold.present:
            raise ValueError(
                "--find_null_threshold and --null_score_diff_threshold="
                f"{threshold.value} exclude each other; give one of them."
            )
    if threshold.present and not FLAGS.version_2_with_negative:
        raise ValueError(
            f"--null_score_diff_threshold={threshold.value} needs "
            "--version_2_with_negative."
        )


if __name__ == "__main__":
    define_flags()
    program.run(main, required=("runs", "output_dir"))
