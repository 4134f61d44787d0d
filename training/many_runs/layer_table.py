"""Table 7 of the paper: trainings on mixes of a frozen encoder's layers."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from absl import logging

from data.storage import files
from data.storage.tsv_files import write_tsv
from data.tables import aligned, text_of
from modeling.choices import MIXES
from modeling.config import BertConfig
from modeling.layer_mix import mixes_of
from training.config.finetuning_options import TABLE, ClassifierOptions
from training.finetuning.metric_values import is_better, value_of
from training.finetuning.task_run import Inputs, TaskRun, facts_of
from training.many_runs.recorded_run import RecordedRun
from training.model_files import found_files

_ROW_FILE = "row.json"


def run(options: ClassifierOptions, task_run: TaskRun) -> list[list[Any]]:
    """Trains a head on every mix of layers and compares them on the dev set.

    Each row is a run in `output_dir/MIX` on the records in output_dir. An
    interrupted row is resumed, and a finished one is not repeated.
    `features.tsv` and `features.md` hold the table.

    Returns:
      The names of the columns, then the rows: mix, value of the task's main
      metric, duration in seconds without pauses, `*` for the best.

    Raises:
      ValueError, OSError, FloatingPointError: see `classifier.run`; or a row
        was made with other settings.
    """
    _check(options)
    options = found_files.fill(options)
    config = BertConfig.from_json_file(options.finetuning.bert_config_file)
    mixes = mixes_of(config)
    inputs = task_run.prepare(options, _options_of(options, mixes[0]))
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
        rows.append(_row(options, inputs, mix, task_run))
        table = _marked(rows, metric)
        _write(options.finetuning.train.output_dir, table)
    logging.info("Layers of the frozen encoder:\n%s", aligned(table))
    return table


def _row(
    options: ClassifierOptions, inputs: Inputs, mix: str, task_run: TaskRun
) -> list[Any]:
    """Trains on one mix, unless that is finished: mix, value, seconds."""
    options = _options_of(options, mix)
    folder = options.finetuning.train.output_dir
    row = RecordedRun(folder, _ROW_FILE, facts_of(options, inputs))

    def train() -> dict[str, Any]:
        outcome = task_run.run(options, inputs)
        return {"value": value_of(outcome.results, inputs.task.main_metric)}

    if row.result:
        logging.info("%s is done: %s", folder, text_of(row.result["value"]))
    result = row.result or row.run(train)
    return [mix, result["value"], result["seconds"]]


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
    """Adds the names of the columns, and a star to the best row."""
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
    """Refuses flags with which there is no table."""
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
