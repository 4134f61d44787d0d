"""Fine-tuning on tables that are Python objects, as run_classifier.py does."""

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from data import settings
from data.tasks import python_rows, user
from data.text import vocabulary
from modeling.checkpoints import model_folder
from training.config.finetuning_options import (
    ClassifierOptions,
    TaskOptions,
    TrialOptions,
)
from training.devices import session

# The tables are kept there, so that run_classifier.py can go on with them.
_FOLDER = "data"
_CLASSES = (ClassifierOptions, TrialOptions, TaskOptions)
# Settings that follow from the arguments of `run`.
_OWN = {
    *("task_name", "data_dir", "task_options", "kind", "label_column"),
    *("text_columns", "train_file", "dev_file", "test_file", "output_dir"),
    *("do_train", "do_eval", "do_predict", "tfds", "tfds_data_dir", "language"),
    *("bert_config_file", "vocab_file", "init_checkpoint"),
}
# Settings that `run` takes, beside those of the tables.
SETTINGS = set().union(*map(settings.names_of, _CLASSES)) - _OWN


def run(
    tables: Mapping[str, Any],
    folder: str,
    output_dir: str,
    run_task: Callable[[TrialOptions, ClassifierOptions], Any],
    *,
    kind: str,
    text: str | Sequence[str],
    label: str,
    **values: Any,
) -> dict[str, float]:
    """Trains, evaluates and predicts.

    Args:
      tables: `train`, `dev` and `test`: see `python_rows.rows_of`, or the path
        of a file, or None; `dev` may be the share of the rows of `train`.
      folder: of the model to begin with, see `modeling.load`.
      output_dir: see run_classifier.py.
      run_task: runs a task and returns its outcome, see `Trials.run`.
      kind: what a row is, see `UserTable`.
      text: column of the text, or of both; "" = the usual ones.
      label: column of the label.
      **values: of `SETTINGS`.

    Returns:
      Metric -> value on the dev set; {} = there is none.

    Raises:
      ValueError, OSError: an input is missing or does not fit.
      FloatingPointError: training diverged.
    """
    tables = {n: table for n, table in tables.items() if table is not None}
    texts = [text] if isinstance(text, str) and text else list(text)
    columns = [*(texts or user.usual_texts(kind))]
    columns += [*values.get("choice_columns", ()), label]
    columns += [values[n] for n in ("id_column",) if values.get(n)]
    rows = _rows_of(tables, columns, label, values.get("seed", 0))
    task_options = {"kind": kind, "label_column": label, **_files_of(tables)}
    if texts:
        task_options["text_columns"] = texts
    trials, options = _options_of(values, folder, output_dir, task_options)
    options = options.replace(
        do_eval="dev" in tables, do_predict="test" in tables
    )
    with session.joined(options.finetuning.device, output_dir) as here:
        data_dir = os.path.join(here.output_dir, _FOLDER)
        for name, some in rows.items():
            path = os.path.join(data_dir, f"{name}.jsonl")
            python_rows.write_rows(path, some)
        options = options.replace(output_dir=here.output_dir, data_dir=data_dir)
        outcome = run_task(trials, options)
    return dict(outcome.results.get("dev", {}))


def _options_of(
    values: Mapping[str, Any],
    folder: str,
    output_dir: str,
    task_options: Mapping[str, Any],
) -> tuple[TrialOptions, ClassifierOptions]:
    """Makes the options of a run; refuses settings that there are not."""
    for name in values.keys() - SETTINGS:
        nearest = difflib.get_close_matches(name, SETTINGS, n=1)
        raise ValueError(
            f"there is no setting {name!r}"
            + (f" (the nearest is {nearest[0]!r})" if nearest else "")
            + "; the settings are the flags of run_classifier.py."
        )
    of_task = settings.names_of(TaskOptions)
    given = {name: x for name, x in values.items() if name in of_task}
    options = settings.make(
        ClassifierOptions,
        {
            "head": "bilstm" if values.get("feature_based") else "linear",
            **_model_files(folder),
            **values,
            "task_name": "tsv",
            "data_dir": os.path.join(output_dir, _FOLDER),
            "task_options": given | task_options,
            "do_train": True,
            "output_dir": output_dir,
        },
    )
    return settings.make(TrialOptions, values), options


def _files_of(tables: Mapping[str, Any]) -> dict[str, str]:
    """Returns the flags that name the tables that are files."""
    paths = {
        f"{name}_file": os.fspath(table)
        for name, table in tables.items()
        if isinstance(table, str | os.PathLike)
    }
    return {
        flag: path if "://" in path else os.path.abspath(path)
        for flag, path in paths.items()
    }


def _model_files(folder: str) -> dict[str, Any]:
    """Returns the flags that name the files of the model to begin with."""
    found = model_folder.find(folder)
    found.read_config()  # refuses a folder without one
    if not found.vocab_file:
        raise FileNotFoundError(
            f"{found.path} has no vocab.txt and no tokenizer.json; put "
            "the vocabulary that the model was trained with there."
        )
    lower = found.do_lower_case
    if lower is None:
        lower = not vocabulary.is_cased(vocabulary.load_vocab(found.vocab_file))
    return {
        "bert_config_file": found.config_file,
        "vocab_file": found.vocab_file,
        "do_lower_case": lower,
        "init_checkpoint": found.weights,
    }


def _rows_of(
    tables: Mapping[str, Any], columns: Sequence[str], label: str, seed: int
) -> dict[str, list[dict[str, Any]]]:
    """Reads the tables that are no files; cuts the dev set off, if it must."""
    rows = {
        name: python_rows.rows_of(
            table,
            columns,
            may_lack=[label] if name == "test" else (),
            name=name,
        )
        for name, table in tables.items()
        if not isinstance(table, str | os.PathLike | float)
    }
    share = tables.get("dev")
    if isinstance(share, float):
        everything = rows.get("train", [])
        count = round(share * len(everything))
        if not 0 < count < len(everything):
            raise ValueError(
                f"dev is {share}, a share of {len(everything)} training rows "
                "that are no file; expected a share above 0 and below 1 that "
                "leaves rows for both sets, or a table."
            )
        order = np.random.default_rng(seed).permutation(len(everything))
        for name, places in ("dev", order[:count]), ("train", order[count:]):
            rows[name] = [everything[place] for place in sorted(places)]
    return rows
