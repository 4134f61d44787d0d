"""Sentence vectors from Python objects, as run_sentence_vectors.py trains."""

import os
from collections.abc import Mapping
from typing import Any

from data import settings
from data.tasks import python_rows
from data.vectors.text_sets import GLUE
from training.config.vector_options import SentenceOptions
from training.devices import session
from training.runs import sentences

_FOLDER = "data"
# Settings that follow from the arguments of `run`.
_OWN = {
    *("given", "do_train", "do_eval", "do_export", "output_dir"),
    *("init_checkpoint", "train_file", "dev_file"),
}
SETTINGS = settings.names_of(SentenceOptions) - _OWN


def run(
    train: Any, folder: str, output_dir: str, dev: Any, **values: Any
) -> dict[str, float]:
    """Trains and evaluates; see `bert.train_vectors`."""
    settings.check_names(
        values, SETTINGS, "the settings are flags of run_sentence_vectors.py"
    )
    tables = {"train": train, "dev": dev}
    tables = {name: x for name, x in tables.items() if x is not None}
    files = {
        f"{name}_file": os.path.abspath(os.fspath(table))
        for name, table in tables.items()
        if python_rows.is_path(table)
    }
    has_dev = values.get("task_name") in GLUE or "eval_task_name" in values
    more = {
        "given": frozenset(values),
        "do_train": True,
        "do_eval": "dev" in tables or has_dev,
        "output_dir": output_dir,
        "init_checkpoint": folder,
    }
    own = {"task_name": "jsonl"}
    options = settings.make(SentenceOptions, own | values | files | more)
    rows = _rows_of(tables, options)
    with session.joined(options.finetuning.device, output_dir) as here:
        data_dir = os.path.abspath(os.path.join(here.output_dir, _FOLDER))
        paths = {name: os.path.join(data_dir, f"{name}.jsonl") for name in rows}
        options = options.replace(
            output_dir=here.output_dir,
            **{f"{name}_file": path for name, path in paths.items()},
        )
        with python_rows.put_back_if_refused(paths.values()):
            for name, path in paths.items():
                python_rows.write_rows(path, rows[name])
            results = sentences.run(options)
    return dict(results.get("dev", {}))


def _rows_of(
    tables: Mapping[str, Any], options: SentenceOptions
) -> dict[str, list[dict[str, Any]]]:
    """Reads the tables that are not files."""
    rows = {}
    for name, table in tables.items():
        if not python_rows.is_path(table):
            source = options.train_set if name == "train" else options.dev_set
            columns = [*source.text_columns]
            columns += [source.label_column] * source.scored
            rows[name] = python_rows.rows_of(table, columns, name=name)
    return rows
