"""Tasks whose examples come from tensorflow-datasets instead of files."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from data.tasks.glue import GlueTask
from data.tasks.rows import Column, Row
from data.tasks.task import Task, make_task


class _Source(NamedTuple):
    """A data set of one or two texts with a label.

    `texts` are their features. `names` are the data set's names of the task's
    labels, in the same order; () = the task's own.
    """

    data_set: str
    texts: tuple[str, ...]
    names: tuple[str, ...] = ()


# GLUE's number of an example: its index in GLUE's file.
_IDX = Column("idx")
_PAIR = ("sentence1", "sentence2")
_QUESTIONS = ("question1", "question2")
_INFERENCE = ("premise", "hypothesis")
_SOURCES = {
    "cola": _Source("glue/cola", ("sentence",), ("unacceptable", "acceptable")),
    "sst-2": _Source("glue/sst2", ("sentence",), ("negative", "positive")),
    "mrpc": _Source("glue/mrpc", _PAIR, ("not_equivalent", "equivalent")),
    "sts-b": _Source("glue/stsb", _PAIR),
    "qqp": _Source("glue/qqp", _QUESTIONS, ("not_duplicate", "duplicate")),
    "mnli": _Source("glue/mnli", _INFERENCE),
    "ax": _Source("glue/ax", _INFERENCE),
    "qnli": _Source("glue/qnli", ("question", "sentence")),
    "rte": _Source("glue/rte", _PAIR),
    "wnli": _Source("glue/wnli", _PAIR, ("not_entailment", "entailment")),
    "xnli": _Source("xnli", _INFERENCE),
}


def make_tfds_task(
    name: str, data_set: str, data_dir: str | None, options: Mapping[str, Any]
) -> Task:
    """Creates a task whose examples come from tensorflow-datasets.

    `name` is a task of GLUE, `xnli`, or `tsv` for any data set, whose features
    are then the columns. `data_set` is as in `tfds.builder`, "" = the task's
    default.
    """
    if name != "tsv" and name not in _SOURCES:
        raise ValueError(
            f"--task_name={name} has no data set in tensorflow-datasets; "
            f"these tasks have one: {', '.join(_SOURCES)}. Describe the data "
            "set's features with --task_name=tsv, or give --data_dir."
        )
    if name == "tsv" and not data_set:
        raise ValueError("--task_name=tsv: --tfds is empty; name the data set.")
    task, source = make_task(name, "", options), _SOURCES.get(name)
    read = functools.partial(_read, data_set or source.data_set, data_dir)
    task.table = read
    if source:
        task.table = lambda name: _table(task, source, read(name), name)
        task.submission_numbers = lambda set_name: (
            row.number for row in task.table(set_name)
        )
    return task


def _read(data_set: str, data_dir: str | None, set_name: str) -> Iterator[Row]:
    """Yields the examples of a set as rows, class labels as names."""
    # Imported here because it loads TensorFlow, which text files do not need.
    from data import tfds

    split = "test"
    if set_name != "diagnostic":  # dev_matched -> validation_matched
        split = set_name.replace("dev", "validation")
    where = f"--tfds={data_set}, {split}"
    examples = tfds.read_examples(data_set, split, data_dir)
    for number, fields in enumerate(examples):
        names, cells = tuple(fields), tuple(fields.values())
        yield Row(where, number + 1, number, names, cells)


def _table(
    task: GlueTask, source: _Source, rows: Iterable[Row], set_name: str
) -> Iterator[Row]:
    """Yields the rows of a data set as those of the task's own files."""
    names = (*(column.name for column in task.columns(set_name)), "index")
    if file_name := task.submission_files.get(set_name):
        rows = _in_order_of_idx(rows, file_name)
    for row in rows:
        number = row.value(_IDX) if row.has(_IDX) else row.number
        label = row.value(Column("label"))
        if label in source.names:
            label = task.labels[source.names.index(label)]
        texts = [_text(row, name, task) for name in source.texts]
        cells = (label, *texts, number)
        yield row._replace(number=number, names=names, cells=cells)


def _in_order_of_idx(rows: Iterable[Row], file_name: str) -> Iterator[Row]:
    """Sorts a test set by its examples' numbers in GLUE's file.

    The data set is in the order of hashed keys, but line 3 of test_results.tsv
    should be the answer to line 3 of GLUE's file. All rows are held in memory.
    """
    found: dict[int, Row] = {}
    for row in rows:
        number = row.value(_IDX) if row.has(_IDX) else None
        if not isinstance(number, int) or number < 0 or number in found:
            row.fail(
                f"'idx' is {number!r}, expected the number of the example in "
                f"GLUE's file, from 0, another one for each, for {file_name}. "
                "Add the feature, or read the data set with --task_name=tsv."
            )
        found[number] = row
    yield from (found[number] for number in sorted(found))


def _text(row: Row, name: str, task: GlueTask) -> str:
    """Returns a text, or its translation in the language of XNLI."""
    text = row.value(Column(name))
    if isinstance(text, str):
        return text
    if "language" in text:  # tfds.features.TranslationVariableLanguages
        text = dict(zip(text["language"], text["translation"], strict=True))
    if task.language not in text:
        known = ", ".join(sorted(text))
        row.fail(f"--language={task.language}, expected {known}.")
    return text[task.language]
