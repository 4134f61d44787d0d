"""The base class of fine-tuning tasks, and their registration.

A new task is one file in this folder: a subclass of `Task` under
`@register("its_name")`. As in the original, it may also be a subclass of
`DataProcessor` anywhere, with its four methods and
`register("its_name", ItsClass)`. The kind decides features, head and loss.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from data import metrics
from data.tasks import rows
from data.tasks.examples import Example, InputExample
from data.tasks.rows import EMPTY_SET, Column, Row

# What is predicted: one label for a text or pair, a number, any number of
# labels, one of several texts, or a label for each word.
KINDS = ("classification", "regression", "multilabel", "choice", "tagging")

# Name -> class; filled by `register`.
_CLASSES: dict[str, type] = {}


class Task:
    """Reads the examples of a task and scores predictions.

    A subclass implements `table` and `example`, or `read` if its sets are not
    tables, and sets the attributes that differ:

    Attributes:
      name: the registered name.
      kind: one of `KINDS`.
      labels: texts of the labels in the order of their ids; for choice one for
        each choice; empty for regression.
      metrics: names of `metrics.METRICS` for the kind, the main metric first.
      label_separator: separates the labels of an example of multilabel.
      draws_dev: whether its dev set may be a share of the train set.
      train_sets, dev_sets, test_sets: names that `examples` accepts.
      model_labels: labels of a trained model, which a task of the user takes in
        place of those of its train set, which is not opened; () = unknown.
      train_separator: what separates the cells of the train set's csv file;
        "" = unknown, or another format.
      cut: how a pair that is too long is shortened: `longest` = the longer
        text, token by token; `first` = the first text.
      submission_files: name of a test set -> file name for the server.
    """

    name: str = ""
    kind: str = "classification"
    labels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("accuracy",)
    label_separator: str = ","
    draws_dev: bool = False
    model_labels: tuple[str, ...] = ()
    train_separator: str = ""
    train_sets: tuple[str, ...] = ("train",)
    dev_sets: tuple[str, ...] = ("dev",)
    test_sets: tuple[str, ...] = ("test",)
    cut: str = "longest"
    submission_files: Mapping[str, str] = {}

    def __init__(self, data_dir: str):
        self.data_dir = data_dir

    @property
    def answer_files(self) -> list[str]:
        """Names of the files with the predictions of the test sets."""
        others = [f"predictions_{name}.tsv" for name in self.test_sets[1:]]
        own = ["predictions.tsv", "test_results.tsv"]
        return [*own, *others, *self.submission_files.values()]

    def table(self, set_name: str) -> Iterator[Row]:
        """Yields the rows of one of the sets, or of its file."""
        raise NotImplementedError(f"{type(self).__name__}.table")

    def example(self, row: Row, set_name: str) -> Example:
        """Converts a row of a set to an example."""
        raise NotImplementedError(f"{type(self).__name__}.example")

    def read(self, set_name: str) -> Iterator[Example]:
        """Yields the examples of one of the sets; see `examples`."""
        return rows.converted(
            self.rows_of(set_name), lambda row: self.example(row, set_name)
        )

    def rows_of(self, set_name: str) -> Iterator[Row]:
        """Yields the row of each example of a set."""
        for number, row in enumerate(self.table(set_name)):
            if not number:
                row.check_columns(self.needed(set_name))
            yield row

    def needed(self, set_name: str) -> Sequence[Column]:
        """Returns the columns that a set's table must have."""
        return ()

    def set_name(self, name: str) -> str:
        """Returns a set's own name; `dev` and `test` mean the first ones."""
        sets = [*self.train_sets, *self.dev_sets, *self.test_sets]
        if name in sets:
            return name
        first = {"dev": self.dev_sets[:1], "test": self.test_sets[:1]}
        if not first.get(name):
            raise ValueError(
                f"--task_name={self.name} has no {name} set; it has "
                f"{', '.join(sets)}."
            )
        return first[name][0]

    def examples(self, set_name: str) -> Iterator[Example]:
        """Yields the examples of a set, in the order of its file.

        Raises FileNotFoundError if the file is missing, ValueError if there is
        no such set, it is empty, or a row is wrong.
        """
        set_name = self.set_name(set_name)
        count, empty = 0, []
        try:
            for example in self.read(set_name):
                count += 1
                if not all(map(str.strip, example.texts)):
                    empty.append(example.guid)
                yield example
        except FileNotFoundError as error:
            text = f"--task_name={self.name}, {set_name} set: {error}"
            if self.data_dir and self.data_dir in str(error):
                text += f" Is --data_dir={self.data_dir} the task's folder?"
            if set_name == "dev" and self.draws_dev:
                text += " Or draw it from the train set: --dev_share=0.1."
            raise FileNotFoundError(text) from error
        if not count:
            raise ValueError(f"--task_name={self.name}: {EMPTY_SET % set_name}")
        if empty:
            # Some real sets, such as QQP, have a few. They are kept because a
            # test set must be complete. Many of them mean a wrong column.
            logging.warning(
                "--task_name=%s: %d of %d examples of the %s set have an empty "
                "text, which is kept; the first is %s. Are the columns right?",
                *(self.name, len(empty), count, set_name, empty[0]),
            )

    def reads_pairs(self) -> bool:
        """Returns whether the first example of the task has two texts.

        Raises FileNotFoundError if the folder has no set.
        """
        for name in (*self.train_sets, *self.dev_sets, *self.test_sets):
            try:
                example = next(self.examples(name))
            except (FileNotFoundError, ValueError, StopIteration):
                continue  # The folder does not have this set, or it is empty.
            return getattr(example, "text_b", None) is not None
        raise FileNotFoundError(
            f"--task_name={self.name}: --data_dir={self.data_dir} has no set "
            "that says whether texts come in pairs; give the task's data."
        )

    def gold(self, set_name: str) -> Any:
        """Returns the right answers of a set, or None if one is unknown.

        They are ids [N], numbers [N], 0 and 1 [N, labels], or for tagging the
        labels of each sentence.
        """
        name = "labels" if self.kind == "tagging" else "label"
        answers = [getattr(one, name) for one in self.examples(set_name)]
        if any(answer is None for answer in answers):
            return None
        if self.kind == "tagging":
            return answers
        if self.kind == "regression":
            return np.array(answers, np.float64)
        if self.kind == "multilabel":
            rows = [[x in answer for x in self.labels] for answer in answers]
            return np.array(rows, np.int64)
        return np.array([self.labels.index(answer) for answer in answers])

    def score(self, gold: Any, predicted: Any) -> dict[str, float]:
        """Returns the metrics of predictions, which have the form of `gold`."""
        return metrics.compute(self.metrics, self.kind, gold, predicted)

    def submission_numbers(self, set_name: str) -> Iterable[int]:
        """Returns the numbers of the examples in a submission, in order.

        They are 0, 1, 2, ... unless a subclass overrides this. There may be
        more numbers than examples.
        """
        return itertools.count()

    def submission(self, set_name: str, answers: Sequence[str | float]) -> str:
        """Returns a test set's file for a benchmark's server.

        Each answer is the text of a label, or a number.
        """
        texts = [x if isinstance(x, str) else f"{x:.3f}" for x in answers]
        numbered = zip(self.submission_numbers(set_name), texts, strict=False)
        lines = [f"{number}\t{text}" for number, text in numbered]
        return "\n".join(["index\tprediction", *lines, ""])


class DataProcessor:
    """The original's base class of a task; see `register`.

    A processor may lack a set, as the original's XNLI has no test set; a
    program that needs the set names the method. For `kind` and `metrics` see
    `Task`.

    Source: DataProcessor in run_classifier.py; `kind`, `metrics` are new.
    """

    kind: str = "classification"
    metrics: tuple[str, ...] = ("accuracy",)

    def get_train_examples(self, data_dir):
        """Gets a collection of `InputExample`s for the train set."""
        raise NotImplementedError()

    def get_dev_examples(self, data_dir):
        """Gets a collection of `InputExample`s for the dev set."""
        raise NotImplementedError()

    def get_test_examples(self, data_dir):
        """Gets a collection of `InputExample`s for prediction."""
        raise NotImplementedError()

    def get_labels(self):
        """Gets the list of labels for this data set."""
        raise NotImplementedError()

    @classmethod
    def _read_tsv(cls, input_file, quotechar=None):
        """Reads a tab separated value file: a list of rows."""
        lines = []
        for line, cells in rows.read_cells(input_file, quotechar=quotechar):
            if not cells:
                raise ValueError(
                    f"{input_file}: line {line} is empty, not a row; remove it."
                )
            lines.append(cells)
        return lines


class _ProcessorTask(Task):
    def __init__(self, data_dir: str, processor: DataProcessor):
        super().__init__(data_dir)
        self._processor = processor
        self.kind = processor.kind
        self.metrics = tuple(processor.metrics)
        # Some of the original's own notebooks have numbers.
        self.labels = tuple(map(str, processor.get_labels() or ()))

    def read(self, set_name: str) -> Iterator[Example]:
        """Yields the examples of the processor's method for the set."""
        method = f"get_{set_name}_examples"
        try:
            examples = getattr(self._processor, method)(self.data_dir)
        except NotImplementedError as error:
            raise ValueError(
                f"--task_name={self.name} has no {set_name} set: {method} of "
                f"{type(self._processor).__name__} is not implemented."
            ) from error
        for example in examples:
            if isinstance(example, InputExample):
                # The original requires a dummy label in test examples.
                label = None if set_name == "test" else example.label
                if self.kind == "classification" and label is not None:
                    label = str(label)
                example = dataclasses.replace(example, label=label)
            yield example


def register(name: str, cls: type | None = None) -> Any:
    """Registers a subclass of `Task` or of `DataProcessor` as --task_name.

    Use `@register("x")` or `register("x", X)`. Raises ValueError if another
    class has the name, TypeError for another class.
    """
    if cls is None:
        return functools.partial(register, name)
    if not (isinstance(cls, type) and issubclass(cls, Task | DataProcessor)):
        raise TypeError(
            f"register({name!r}): {cls!r} is not a subclass of Task or "
            "DataProcessor."
        )
    before = _CLASSES.get(name.lower(), cls)
    taken, own = (f"{x.__module__}.{x.__qualname__}" for x in (before, cls))
    if taken != own:
        raise ValueError(
            f"register({name!r}): {taken} has this name; give another."
        )
    _CLASSES[name.lower()] = cls
    return cls


def task_names() -> tuple[str, ...]:
    """The names of all registered tasks, sorted."""
    return tuple(sorted(_CLASSES))


def task_class(name: str) -> type:
    """The class registered under a name of `task_names`."""
    return _CLASSES[name]


def make_task(name: str, data_dir: str, options: Mapping[str, Any]) -> Task:
    """Creates a registered task."""
    cls = task_class(name)
    if issubclass(cls, DataProcessor):
        task = _ProcessorTask(data_dir, cls(**options))
    else:
        task = cls(data_dir, **options)
    task.name = name
    return task
