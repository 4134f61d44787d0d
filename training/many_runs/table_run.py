"""Training on tables that are Python objects, as the programs do."""

import contextlib
import os
import random
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
from absl import logging

from data import settings
from data.storage import files
from data.tasks import python_rows, user
from data.text import tokenizer_files, vocabulary
from data.vectors.text_sets import GLUE
from modeling.checkpoints import model_folder, tf1
from training.config.finetuning_options import (
    ClassifierOptions,
    TaskOptions,
    TaskRunOptions,
    TrialOptions,
)
from training.config.vector_options import SentenceOptions
from training.devices import session
from training.many_runs import trials
from training.runs import sentences

# The tables are kept there, so that run_classifier.py can go on with them.
_FOLDER = "data"
_CLASSES = (ClassifierOptions, TrialOptions, TaskOptions)
# Settings that follow from the arguments of `run`.
_OWN = {
    *("task_name", "data_dir", "task_options", "kind", "label_column"),
    *("text_columns", "train_file", "dev_file", "test_file", "dev_share"),
    *("given", "output_dir", "do_export", "tfds", "tfds_data_dir", "language"),
    *("do_train", "do_eval", "do_predict"),
    *("bert_config_file", "vocab_file", "init_checkpoint"),
}
# Settings that `run` takes beside the settings of tables.
SETTINGS = set().union(*map(settings.names_of, _CLASSES)) - _OWN
_KNOWN_ONES = (
    "the settings are those flags of run_classifier.py that say how a model is "
    "trained and evaluated; for an export see its --do_export"
)
_OF_DEV = (
    *("calibrate", "explain_errors", "eval_checkpoints"),
    *("eval_every_steps", "save_best"),
)
_NEEDS_DEV = "{} needs dev: a table, or a share of train such as 0.1."
_OF_VECTORS = settings.names_of(SentenceOptions) - {
    *("given", "do_train", "do_eval", "do_export", "output_dir"),
    *("init_checkpoint", "train_file", "dev_file"),
}


def run(
    tables: Mapping[str, Any],
    folder: str,
    output_dir: str,
    *,
    kind: str,
    text: str | Sequence[str],
    label: str,
    **values: Any,
) -> dict[str, float]:
    """Trains, evaluates and predicts; see `bert.finetune`.

    `tables` are `train`, `dev` and `test`: a table (see `python_rows.rows_of`),
    a file's path, or None; `dev` may be a share of the rows of `train`.
    `values` are settings named in `SETTINGS`. They are checked before anything
    is written.
    """
    settings.check_names(values, SETTINGS, _KNOWN_ONES)
    tables = {
        # A share of NumPy becomes a float of Python.
        name: table.item() if isinstance(table, np.floating) else table
        for name, table in tables.items()
        if table is not None or name == "train"
    }
    # Defaults of a call count as given, too: it has them in its signature.
    given = values | {"kind": kind, "text_columns": text, "label_column": label}
    own = {
        "task_options": _task_options(tables, given),
        "head": "bilstm" if values.get("feature_based") else "linear",
        **_model_files(folder),
        **values,
        "given": frozenset(given),
        "task_name": "tsv",
        "output_dir": output_dir,
        "data_dir": os.path.join(output_dir, _FOLDER),
        "do_train": True,
        "do_eval": "dev" in tables,
        "do_predict": "test" in tables,
    }
    options = settings.make(ClassifierOptions, own)
    trial_options = settings.make(TrialOptions, values)
    if trial_options.changed() and "dev" not in tables:
        raise ValueError(_NEEDS_DEV.format("choosing among trials"))
    rows = _rows_of(tables, options.task_options)
    named = {name for name, x in tables.items() if not isinstance(x, float)}
    with _written(rows, options, named) as (output_dir, data_dir):
        options = options.replace(output_dir=output_dir, data_dir=data_dir)
        return dict(trials.run(options, trial_options).results.get("dev", {}))


def train_vectors(
    tables: Mapping[str, Any], folder: str, output_dir: str, **values: Any
) -> dict[str, float]:
    """Trains vectors and evaluates them; see `bert.train_vectors`."""
    known_ones = "the settings are flags of run_sentence_vectors.py"
    settings.check_names(values, _OF_VECTORS, known_ones)
    tables = {name: x for name, x in tables.items() if x is not None}
    has_dev = values.get("task_name") in GLUE or "eval_task_name" in values
    found = _model_files(folder)
    own = {
        **{name: found[name] for name in ("do_lower_case", "never_split")},
        **{"task_name": "jsonl", **values, **_files_of(tables)},
        "given": frozenset(values),
        "do_train": True,
        "do_eval": "dev" in tables or has_dev,
        "output_dir": output_dir,
        "init_checkpoint": folder,
    }
    options = settings.make(SentenceOptions, own)
    if options.watches and not options.do_eval:
        raise ValueError("eval_every_steps needs dev, a table to evaluate on.")
    rows, drops = {}, options.find("drop_missing")
    for name, table in tables.items():
        if not python_rows.is_path(table):
            source = options.train_set if name == "train" else options.dev_set
            columns = [*source.options.text_columns]
            columns += [source.options.label_column] * source.scored
            rows[name] = python_rows.rows_of(
                table, columns, drops=drops, name=name
            )
    with _written(rows, options, tables.keys()) as (output_dir, data_dir):
        paths = {name: _path(data_dir, name) for name in rows}
        options = options.replace(output_dir=output_dir, **_files_of(paths))
        return dict(sentences.run(options).get("dev", {}))


@contextlib.contextmanager
def _written(
    rows: Mapping[str, Any], options: TaskRunOptions, given: Set[str]
) -> Iterator[tuple[str, str]]:
    """Joins the run's processes and writes tables; yields both folders.

    `given` are the names of all tables of the call, also of those in files.
    """
    device, at_end = options.finetuning.device, contextlib.ExitStack()
    with at_end, session.joined(device, options.output_dir) as output_dir:
        # A run sets its seed; the caller goes on with its own random numbers.
        at_end.callback(random.setstate, random.getstate())
        at_end.callback(np.random.set_state, np.random.get_state())
        data_dir = os.path.join(output_dir, _FOLDER)
        paths = {name: _path(data_dir, name) for name in rows}
        stale = _stale(output_dir, data_dir, given) if rows else []
        has_run = tf1.has_run(model_folder.chosen_trial(output_dir))
        tables = {*paths.values(), *stale}
        with python_rows.put_back_if_refused(tables, has_run):
            for name, path in paths.items():
                python_rows.write_rows(path, rows[name])
            for path in stale:
                logging.warning("%s, of an earlier call, is removed.", path)
                files.remove(path)
            yield output_dir, data_dir


def _stale(output_dir: str, data_dir: str, given: Set[str]) -> list[str]:
    """The tables of a call that was refused or stopped without a checkpoint.

    Rows of its dev set may be trained on now, and would then be scored.
    """
    folder = model_folder.chosen_trial(output_dir)
    described = model_folder.read_description(folder)
    if tf1.has_run(folder) or described and described["weights"]:
        return []
    names = {"train", "dev", "test"} - given
    return list(filter(files.exists, (_path(data_dir, x) for x in names)))


def _path(data_dir: str, name: str) -> str:
    return os.path.join(data_dir, f"{name}.jsonl")


def _files_of(tables: Mapping[str, Any]) -> dict[str, str]:
    """Returns the flags of the tables that are files."""
    return {
        f"{name}_file": files.absolute(os.fspath(table))
        for name, table in tables.items()
        if python_rows.is_path(table)
    }


def _task_options(
    tables: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the options of the task that are given.

    Refuses flags of an evaluation where there is no dev set.
    """
    for name in filter(values.get, () if "dev" in tables else _OF_DEV):
        raise ValueError(_NEEDS_DEV.format(name))
    given = {**values, **_files_of(tables)}
    labels = given.get("labels")
    labels = labels.tolist() if hasattr(labels, "tolist") else labels
    if isinstance(labels, list | tuple):
        given["labels"] = [python_rows.label_of(label) for label in labels]
    if given["kind"] == "single":  # the default of the program
        del given["kind"]
    if isinstance(text := given["text_columns"], str):
        given["text_columns"] = [text] if text else None
    share = tables.get("dev")
    if isinstance(share, float):
        given["dev_share"] = share
    return settings.make(TaskOptions, given).changed()


def _model_files(folder: str) -> dict[str, Any]:
    """Returns the flags that name the files of the model to begin with."""
    found = model_folder.find(folder)
    found.read_config()  # refuses a folder without one
    if not found.vocab_file:
        raise FileNotFoundError(
            f"{found.path} has no vocab.txt and no tokenizer.json; put "
            "the vocabulary that the model was trained with there."
        )
    texts = tokenizer_files.read_settings(found.path, found.facts)
    vocab = vocabulary.load_vocab(found.vocab_file)
    return {
        "bert_config_file": found.config_file,
        "vocab_file": found.vocab_file,
        "do_lower_case": texts.lower_case(None, vocab),
        "never_split": texts.never_split,
        "init_checkpoint": found.weights,
    }


def _rows_of(
    tables: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    """Reads the tables that are not files."""
    # A share would look for a file of the dev set.
    read = user.UserTable("", **{**options, "dev_share": None}).files
    columns = [*read.columns, read.label, read.id_column]
    columns = [column.name for column in filter(None, columns)]
    return {
        name: python_rows.rows_of(
            table,
            columns,
            may_lack=[read.label.name] if name == "test" else (),
            drops=options.get("drop_missing", False),
            name=name,
        )
        for name, table in tables.items()
        if not (python_rows.is_path(table) or isinstance(table, float))
    }
