"""Text in, batches out; scores in, answers out. Knows no model.

`modeling` imports only `text`, `storage` and `settings` of this package.

Pretraining: `pretraining` turns text into records. Fine-tuning: `tasks` and
`squad` read data sets, `finetuning` turns their examples into records.
`records` turns the records of both into batches.

settings      fields of options: default, help and bounds
tables        tables for the log, and as tab-separated files
storage/      files that appear whole, locks, small JSON files
progress      progress of long work, on a terminal and in a log
processes     tasks worked on by several processes
tfds          data sets of tensorflow-datasets
metrics       accuracy, F1, correlations and entity F1 of predictions
calibration   temperature, thresholds, and what they do to a set
entities      labels of words to entities of a text
text/         vocabularies, tokenizers, input rows
records/      features, TFRecord files, batches
pretraining/  text to pretraining records
tasks/        classification, tagging and multiple-choice data sets
finetuning/   examples of a task to rows and record files
squad/        questions on paragraphs: windows, answers, scores
vectors/      texts and pairs to rows, vectors to files and scores
in_graph/     labels, windows and answers as TensorFlow operations
"""

import sys

# No newer syntax in this file: an older Python must be able to read it.
if sys.version_info < (3, 11):  # noqa: UP036
    raise ImportError(
        "Python {}.{} is too old: the sources need 3.11 or newer, as do the "
        "pinned releases of NumPy, SciPy and scikit-learn. Supported are 3.11, "
        "3.12 and 3.13; name one of them, such as: make "
        "PYTHON=python3.12".format(*sys.version_info[:2])
    )
