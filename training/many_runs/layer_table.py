"""The paper's table 7: a frozen encoder's layers, one mix after the other."""

import dataclasses
import os
import time
from collections.abc import Sequence
from typing import Any

from absl import logging

from data.storage import files, locks
from data.storage.json_files import write_json
from modeling import BertConfig
from modeling.choices import MIXES
from modeling.layer_mix import mixes_of
from training.config.finetuning_options import TABLE, ClassifierOptions
from training.finetuning import classifier
from training.finetuning.best_checkpoint import is_better, value_of
from training.finetuning.tables import aligned, text_of, write_tsv
from training.many_runs.provenance import check_same, facts_of, read_record

_ROW_FILE = "row.json"


def run(options: ClassifierOptions) -> list[list[Any]]:
    """Trains a head on every mix of layers and compares them on the dev set.

    Each row is a run of its own in `output_dir/MIX`, on the records in
    output_dir: it is resumed where it was stopped, and not repeated when it is
    done. `features.tsv` and `features.md` hold the table.

    Args:
      options: of all rows; their `frozen_encoder` is set here.

    Returns:
      The rows: mix, value of the task's main metric, seconds of the process
      that finished it, `*` for the best; the first holds the columns' names.

    Raises:
      ValueError, OSError, FloatingPointError: see `classifier.run`; or a
        row was made with other settings.
    """
    _check(options)
    config = BertConfig.from_json_file(options.finetuning.bert_config_file)
    mixes = mixes_of(config)
    inputs = classifier.prepare(options, _options_of(options, mixes[0]))
    metric = inputs.task.main_metric
    left_out = [mix for mix in MIXES if mix not in mixes]
    if left_out:
        logging.warning(
            "%s left out: the model has %d layers.",
            ", ".join(left_out),
            config.num_hidden_layers,
        )
    rows = []
    for number, mix in enumerate(mixes, 1):
        logging.info("Row %d of %d: %s", number, len(mixes), mix)
        rows.append(_row(options, inputs, mix))
        table = _marked(rows, metric)
        _write(options.finetuning.train.output_dir, table)
    logging.info("Layers of the frozen encoder:\n%s", aligned(table))
    return table


def _row(
    options: ClassifierOptions, inputs: classifier.Inputs, mix: str
) -> list[Any]:
    """Trains on one mix, unless that is done: mix, value, seconds."""
    options = _options_of(options, mix)
    folder = options.finetuning.train.output_dir
    path = os.path.join(folder, _ROW_FILE)
    facts = facts_of(options, inputs)
    row = {"made_from": facts}
    if files.exists(path):
        row = read_record(path)
        check_same(path, row["made_from"], facts)
    if "value" in row:
        logging.info("%s is done: %s", folder, text_of(row["value"]))
        return [mix, row["value"], row["seconds"]]
    with locks.sole_use(folder):
        write_json(path, row)
        began = time.monotonic()
        outcome = classifier.run(options, inputs)
    row |= {
        "value": value_of(outcome.results, inputs.task.main_metric),
        "seconds": round(time.monotonic() - began, 1),
    }
    write_json(path, row)
    return [mix, row["value"], row["seconds"]]


def _options_of(options: ClassifierOptions, mix: str) -> ClassifierOptions:
    """The options of the run on one mix."""
    train = options.finetuning.train
    folder = os.path.join(train.output_dir, mix)
    train = dataclasses.replace(train, output_dir=folder)
    return dataclasses.replace(
        options,
        feature_based=mix,
        finetuning=dataclasses.replace(options.finetuning, train=train),
    )


def _marked(rows: Sequence[Sequence[Any]], metric: str) -> list[list[Any]]:
    """Adds the columns' names, and a star to the best row."""
    best = rows[0]
    for row in rows:
        if is_better(metric, row[1], best[1]):
            best = row
    return [
        ["features", metric, "seconds", "best"],
        *([*row, "*" if row is best else ""] for row in rows),
    ]


def _write(output_dir: str, table: Sequence[Sequence[Any]]) -> None:
    """Writes features.tsv, and features.md with the best row in bold."""
    write_tsv(os.path.join(output_dir, "features.tsv"), table)
    (*names, _), *rows = table
    lines = [names, ["---"] * len(names)]
    for mix, value, seconds, star in rows:
        shown = f"{value:.4f}"
        shown = f"**{shown}**" if star else shown
        lines.append([mix, shown, f"{seconds:.0f}"])
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    files.write_text(os.path.join(output_dir, "features.md"), text)


def _check(options: ClassifierOptions) -> None:
    """Refuses what makes no table."""
    if not (options.do_train and options.do_eval):
        raise ValueError(
            f"--feature_based={TABLE} trains and compares: give --do_train and "
            "--do_eval."
        )
    if options.do_predict:
        raise ValueError(
            f"--feature_based={TABLE} has no one model to predict with; ask "
            "one of them afterwards, for example --do_predict "
            "--feature_based=last --output_dir="
            f"{options.finetuning.train.output_dir}/last."
        )
