"""Tables of the user: tsv, csv or JSON lines."""

import functools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from absl import logging

from data import metrics
from data.tasks import examples, rows, splits
from data.tasks.rows import Column, Row
from data.tasks.table_files import TableFiles
from data.tasks.task import Task, register

_OF_CLASSES = ("accuracy", "macro_f1")
# Kind of row -> kind of task, metrics, usual text columns, numbers of these.
_KINDS = {
    "single": ("classification", _OF_CLASSES, ("text",), (1,)),
    "pair": ("classification", _OF_CLASSES, ("text_a", "text_b"), (2,)),
    "regression": ("regression", ("pearson", "spearman"), ("text",), (1, 2)),
    "multilabel": ("multilabel", ("micro_f1", "macro_f1"), ("text",), (1, 2)),
    "choice": ("choice", ("accuracy",), ("text",), (1,)),
    "tagging": ("tagging", (), ("words",), (1,)),
}
# ASCII only, because a no-break space can be part of a word.
_WHITE_SPACE = re.compile(r"\s+", re.ASCII)


@register("tsv")
class UserTable(Task):
    """A table of the user, for a task of any kind.

    The ending of a file's name is its format. A file with another ending is in
    the format of the task's name.

    Columns are names, or numbers from 0 (-1 = the last). If all columns are
    numbers, the files have no header. A test set may lack the label.

    `kind` is the kind of the rows: `single` (a text and a label), `pair` (two
    texts and a label), `regression` or `multilabel` (one or two texts),
    `choice` (a text, its endings and the number of the right ending from 0),
    `tagging` (words and labels, each a JSON list or separated by spaces). The
    other arguments are flags of run_classifier.py: "", () or None = as its help
    says of a flag that is not given.
    """

    suffixes = (".tsv", ".csv", ".jsonl")
    draws_dev = True

    def __init__(
        self,
        data_dir: str,
        kind: str = "single",
        text_columns: Sequence[str] = (),
        label_column: str = "label",
        choice_columns: Sequence[str] = (),
        id_column: str = "",
        label_separator: str = ",",
        quoted: bool | None = None,
        separator: str = "",
        train_file: str = "",
        dev_file: str = "",
        test_file: str = "",
        labels: Sequence[str] = (),
        metrics: Sequence[str] = (),
        dev_share: float | None = None,
        drop_missing: bool = False,
    ):
        super().__init__(data_dir)
        self.name = self.suffixes[0][1:]
        usual = usual_texts(kind, self.name)
        self._texts = _columns(text_columns or usual, "text_columns")
        self._choices = _columns(choice_columns, "choice_columns")
        self._id = Column.parse(id_column, "id_column") if id_column else None
        self._label = Column.parse(label_column or "label", "label_column")
        self._check(kind, labels)
        self.kind, usual_metrics, *_ = _KINDS[kind]
        self.label_separator = label_separator or ","
        names = dict(train=train_file, dev=dev_file, test=test_file)
        self.files = TableFiles(
            *(data_dir, names, self.suffixes, [*self._texts, *self._choices]),
            *(self._label, self._id, quoted, separator, drop_missing),
        )
        self._given_labels = rows.given_labels(labels)
        self._metrics = tuple(metrics) or usual_metrics
        self._dev_share = dev_share
        if dev_share is not None:
            splits.check_share(dev_share, self.files)

    @property
    def train_separator(self) -> str:
        """See `Task`."""
        return self.files.of_train

    @train_separator.setter
    def train_separator(self, mark: str) -> None:
        self.files.of_train = mark

    def _check(self, kind: str, labels: Sequence[str]) -> None:
        if labels and kind == "regression":
            raise ValueError(
                f"--labels={','.join(map(str, labels))}: a regression has "
                "numbers; leave the flag out."
            )
        *_, expected = _KINDS[kind]
        numbers, has_choices = len(self._texts), bool(self._choices)
        if numbers not in expected or has_choices != (kind == "choice"):
            raise ValueError(
                f"--task_name={self.name}: {numbers} text columns and "
                f"{len(self._choices)} choice columns, expected "
                f"{' or '.join(map(str, expected))} and "
                f"{'one or more' if kind == 'choice' else 'none'} for {kind}."
            )

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """The given labels, or the training file's labels, sorted."""
        if self.kind == "regression":
            return ()
        given = self._given_labels or self.model_labels
        return given or self._labels_of_training()

    def _labels_of_training(self) -> tuple[str, ...]:
        """The labels of the training file, with the rows of `dev_share`."""
        first, counts = None, Counter()
        if self.kind == "choice":
            choices = next(map(self._choices_of, self.table("train")), ())
            return tuple(str(i) for i in range(len(choices)))
        for row, labels in rows.converted(
            self.table("train"), lambda row: (row, self._labels_of(row))
        ):
            first = first or row
            counts.update(labels)
        if first:
            _warn_of_header(first, self._labels_of(first), counts)
        return rows.sorted_labels(counts)

    @functools.cached_property
    def metrics(self) -> tuple[str, ...]:
        """The given metrics, or the kind's own."""
        return self._metrics or metrics.for_tags(self.labels)

    def table(self, set_name: str) -> Iterator[Row]:
        """Yields the rows of a set's file."""
        return self.files.read(set_name)

    def rows_of(self, set_name: str) -> Iterator[Row]:
        """Yields rows; with `dev_share`, train and dev share a file."""
        if self._dev_share is None or set_name == "test":
            return self.table(set_name)
        is_dev, numbered = set_name == "dev", enumerate(self.table("train"))
        return (x for i, x in numbered if (i in self.dev_places) == is_dev)

    @functools.cached_property
    def dev_places(self) -> frozenset[int]:
        """Which rows of the training file, from 0, are the dev set."""
        described = rows.converted(self.table("train"), self._labels_and_text)
        return frozenset(splits.dev_places(described, self._dev_share))

    def _labels_and_text(self, row: Row) -> tuple[tuple[str, ...], str]:
        """The labels of a row, and all of its texts as one."""
        labels = () if self.kind == "regression" else self._labels_of(row)
        texts = [row.value(c) for c in (*self._texts, *self._choices)]
        return labels, json.dumps(texts, default=str)

    def example(self, row: Row, set_name: str) -> examples.Example:
        """Converts a row; the label of a test set is not read."""
        name = row.number
        # Not in the train set, whose records are the same without ids.
        if self._id and set_name != "train":
            name = rows.label_text(row.value(self._id))
        guid = f"{set_name}-{name}"
        # The labels of a test set are unknown, or from another vocabulary.
        label = None if set_name == "test" else self._answer(row)
        if self.kind == "tagging":
            words = self._listed(row, self._texts[0])
            if not words:
                row.fail(f"no words in column {self._texts[0]}.")
            if label is not None and len(label) != len(words):
                row.fail(f"{len(label)} labels for {len(words)} words.")
            return examples.TaggingExample(guid, words, label, row.number)
        texts = [row.text(column) for column in self._texts]
        if self.kind == "choice":
            choices, number = self._choices_of(row), len(self.labels)
            if len(choices) != number:
                row.fail(f"{len(choices)} choices, expected {number}.")
            return examples.ChoiceExample(guid, texts * number, choices, label)
        return examples.InputExample(guid, *texts, label=label)

    def _answer(self, row: Row) -> Any:
        if self.kind == "regression":
            return row.float(self._label)
        labels = self._labels_of(row)
        for label in labels:
            row.known(label, self._label, self.labels)
        return labels if self.kind in ("multilabel", "tagging") else labels[0]

    def _labels_of(self, row: Row) -> tuple[str, ...]:
        """Returns the labels of a row, whether the task has them or not."""
        if self.kind in ("multilabel", "tagging"):
            labels = self._listed(row, self._label)
            joined = self.kind == "multilabel" and self.label_separator
            if joined and any(joined in label for label in labels):
                row.fail(f"a label has {joined!r}; give --label_separator.")
            is_vector = {*labels} <= {"0", "1"} and len({*labels}) < len(labels)
            if joined and is_vector:
                row.fail("a 0 or 1 for each label; give the labels' names.")
        elif row.is_empty(self._label):
            row.fail(f"no label in column {self._label}; expected one.")
        else:
            labels = (rows.label_text(row.value(self._label)),)
        rows.check_labels(labels, f"{row.path}, line {row.line}")
        return labels

    def _listed(self, row: Row, column: Column) -> tuple[str, ...]:
        """Returns a list, a JSON list, or a text split at the separator.

        In tagging that is ASCII white space.
        """
        value = row.value(column)
        # Words may begin with a bracket: only a quote after it tells a list.
        marks = ("[",) if column == self._label else ('["', "['")
        if not isinstance(value, str) or value.lstrip().startswith(marks):
            return row.texts(column)
        if self.kind == "tagging":
            parts = _WHITE_SPACE.split(value)
        else:
            parts = map(str.strip, value.split(self.label_separator))
        return tuple(filter(None, parts))

    def _choices_of(self, row: Row) -> tuple[str, ...]:
        """Returns the endings, from one column of lists or several columns."""
        if len(self._choices) == 1:
            return row.texts(self._choices[0])
        return tuple(row.text(column) for column in self._choices)


@register("csv")
class CsvTable(UserTable):
    """See `UserTable`; the separator is found out by the first lines."""

    suffixes = (".csv", ".tsv", ".jsonl")


@register("jsonl")
class JsonTable(UserTable):
    """See `UserTable`; each line of a file is a JSON object."""

    suffixes = (".jsonl", ".csv", ".tsv")


def usual_texts(kind: str, task_name: str = "tsv") -> tuple[str, ...]:
    """Returns the columns of the texts of a kind of row, if none are given."""
    if kind not in _KINDS:
        raise ValueError(
            f"--task_name={task_name}: kind {kind!r}, expected one of "
            f"{', '.join(_KINDS)}."
        )
    return _KINDS[kind][2]


def _warn_of_header(row: Row, labels: Sequence[str], counts: Counter) -> None:
    """Warns if the first row of a table without a header may be one.

    `counts` is label -> number in all rows.
    """
    is_alone = all(counts[label] == labels.count(label) for label in labels)
    if labels and is_alone and not row.names:
        logging.warning(
            "%s, line %d: the label %s is in no other row. Is this line a "
            "header? Columns are given by number, so it is an example. Name "
            "them as in the header, by --text_columns and --label_column.",
            *(row.path, row.line, ", ".join(map(repr, labels))),
        )


def _columns(names: Sequence[str], flag: str) -> tuple[Column, ...]:
    return tuple(Column.parse(str(name), flag) for name in names)
