"""What a fine-tuning task is, and how one is added.

A new task is one file in this folder: a subclass of `Task` under one line
`@register("its_name")`; or anywhere, as in the original, a subclass of
`DataProcessor` with its four methods and `register("its_name", ItsClass)`.
The kind says which features, head and loss it gets.
"""

import abc
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from data import metrics
from data.tasks import rows
from data.tasks.examples import Example, InputExample, has_empty_text

# What is predicted: one label of a text (pair), a number, any number of
# labels, one of several texts, a label of every word.
KINDS = ("classification", "regression", "multilabel", "choice", "tagging")

# The one list of tasks: name -> class. Filled by `register` only.
_CLASSES: dict[str, type] = {}


class Submission(NamedTuple):
    """A file for a benchmark's server.

    Attributes:
      file_name: as the server wants it: `CoLA.tsv`.
      text: what it holds.
    """

    file_name: str
    text: str


class Task(abc.ABC):
    """Where a task's examples come from, and how predictions are scored.

    A subclass implements `read` and sets what differs:

    Attributes:
      name: under which it was found.
      kind: one of `KINDS`.
      labels: their texts, in the order of their ids; of `choice` one for each
        choice; empty for regression.
      metrics: names in `data.metrics`; the first is the main one.
      label_separator: between the labels of one example, of multilabel.
      train_sets, dev_sets, test_sets: names that `examples` takes.
      cut: what is shortened if a pair is too long: `longest` = the longer
        text, token by token; `first` = the first one.
      submission_files: name of a test set -> file name for the server.

    Args:
      data_dir: folder of the task's files.
    """

    name: str = ""
    kind: str = "classification"
    labels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("accuracy",)
    label_separator: str = ","
    train_sets: tuple[str, ...] = ("train",)
    dev_sets: tuple[str, ...] = ("dev",)
    test_sets: tuple[str, ...] = ("test",)
    cut: str = "longest"
    submission_files: Mapping[str, str] = {}

    def __init__(self, data_dir: str):
        self.data_dir = data_dir

    @abc.abstractmethod
    def read(self, set_name: str) -> Iterator[Example]:
        """Streams the examples of one of the sets; see `examples`."""

    @property
    def main_metric(self) -> str:
        """The metric that checkpoints are compared by."""
        return self.metrics[0]

    def set_name(self, name: str) -> str:
        """The set's own name: `dev` and `test` stand for the first of them.

        Raises:
          ValueError: the task has no such set.
        """
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
        """Streams the examples of a set, in the order of its file.

        Args:
          set_name: `train`, `dev`, `test`, or a set's own name.

        Yields:
          The examples.

        Raises:
          FileNotFoundError: its file is missing.
          ValueError: there is no such set, it is empty, or a row is wrong;
            says where, what it has and what was expected.
        """
        set_name = self.set_name(set_name)
        count, empty = 0, []
        try:
            for example in self.read(set_name):
                count += 1
                if has_empty_text(example):
                    empty.append(example.guid)
                yield example
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"--task_name={self.name}, {set_name} set: {error} Is "
                f"--data_dir={self.data_dir} the folder of this task?"
            ) from error
        if not count:
            raise ValueError(
                f"--task_name={self.name}: the {set_name} set is empty, "
                "expected at least one example."
            )
        if empty:
            # Real sets have a few (QQP has), and none of a test set's rows may
            # be missing; many of them mean a wrong column.
            logging.warning(
                "--task_name=%s: %d of %d examples of the %s set have an empty "
                "text, which is kept; the first is %s. Are these the right "
                "columns?",
                self.name,
                len(empty),
                count,
                set_name,
                empty[0],
            )

    def gold(self, set_name: str) -> Any:
        """The right answers of a set, as `score` takes them.

        Returns:
          Ids [N], numbers [N], 0 and 1 [N, labels], or for tagging each
          sentence's labels; None if some answer is not known.
        """
        if self.kind == "tagging":
            answers = [example.labels for example in self.examples(set_name)]
        else:
            answers = [example.label for example in self.examples(set_name)]
        if any(answer is None for answer in answers):
            return None
        if self.kind == "tagging":
            return answers
        if self.kind == "regression":
            return np.array(answers, np.float64)
        if self.kind == "multilabel":
            return np.array(
                [
                    [label in answer for label in self.labels]
                    for answer in answers
                ],
                np.int64,
            )
        return np.array([self.labels.index(answer) for answer in answers])

    def score(self, gold: Any, predicted: Any) -> dict[str, float]:
        """Scores predictions by the task's metrics.

        Args:
          gold: see `gold`.
          predicted: alike.

        Returns:
          Metric -> value.
        """
        return metrics.compute(self.metrics, gold, predicted)

    def submission_numbers(self, set_name: str) -> Iterable[int]:
        """The numbers by which a benchmark's server knows the examples.

        Args:
          set_name: a test set.

        Returns:
          A number for each example, in the order of `examples`, and perhaps
          more: 0, 1, 2, ... unless a subclass knows better.
        """
        return itertools.count()

    def submission(
        self, set_name: str, predictions: Sequence[str | float]
    ) -> Submission | None:
        """Makes the file that a benchmark's server takes.

        Args:
          set_name: a test set.
          predictions: the label's text, or the number, of each example.

        Returns:
          The file; None if there is no server for this set.
        """
        file_name = self.submission_files.get(self.set_name(set_name))
        if file_name is None:
            return None
        lines = ["index\tprediction"]
        numbers = self.submission_numbers(set_name)
        for number, prediction in zip(numbers, predictions, strict=False):
            if not isinstance(prediction, str):
                prediction = f"{prediction:.3f}"
            lines.append(f"{number}\t{prediction}")
        return Submission(file_name, "\n".join([*lines, ""]))


class DataProcessor:
    """The original's way to a new task: four methods, then `register`.

    As in the original the methods raise here, and not `abc`: a processor may
    leave out those of sets it has not (the original's XNLI has no test set).
    Asked for such a set, a program says which method is missing.

    Attributes:
      kind: one of `KINDS`.
      metrics: names in `data.metrics`; the first is the main one.

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
        numbered = rows.read_cells(input_file, quotechar=quotechar)
        return [cells for _, cells in numbered]


class _ProcessorTask(Task):
    """A task of a `DataProcessor`."""

    def __init__(self, data_dir: str, processor: DataProcessor):
        super().__init__(data_dir)
        self._processor = processor
        self.kind = processor.kind
        self.metrics = tuple(processor.metrics)
        self.labels = tuple(processor.get_labels() or ())

    def read(self, set_name: str) -> Iterator[Example]:
        """Streams what the processor's method for the set returns."""
        method = f"get_{set_name}_examples"
        try:
            examples = getattr(self._processor, method)(self.data_dir)
        except NotImplementedError as error:
            raise ValueError(
                f"--task_name={self.name} has no {set_name} set: {method} of "
                f"{type(self._processor).__name__} is not implemented."
            ) from error
        for example in examples:
            if set_name == "test" and isinstance(example, InputExample):
                # A dummy, as the original asks for in test examples.
                example = dataclasses.replace(example, label=None)
            yield example


def register(name: str, cls: type | None = None) -> Any:
    """Makes a task known: `@register("x")` or `register("x", X)`.

    Args:
      name: for --task_name; not case-sensitive.
      cls: a subclass of `Task` or of `DataProcessor`; None = what is
        decorated.

    Returns:
      The class.

    Raises:
      ValueError: the name is taken.
      TypeError: it is no such class.
    """
    if cls is None:
        return functools.partial(register, name)
    if not (isinstance(cls, type) and issubclass(cls, Task | DataProcessor)):
        raise TypeError(
            f"register({name!r}): {cls!r} is no subclass of Task or "
            "DataProcessor."
        )
    taken = _CLASSES.setdefault(name.lower(), cls)
    if (taken.__module__, taken.__qualname__) != (
        cls.__module__,
        cls.__qualname__,
    ):
        raise ValueError(
            f"register({name!r}): the name is {taken.__qualname__}'s of "
            f"{taken.__module__}; give another."
        )
    _CLASSES[name.lower()] = cls
    return cls


def task_names() -> tuple[str, ...]:
    """The names of all registered tasks, sorted."""
    return tuple(sorted(_CLASSES))


def task_class(name: str) -> type:
    """The class registered under a name that `task_names` has."""
    return _CLASSES[name]


def make_task(name: str, data_dir: str, options: Mapping[str, Any]) -> Task:
    """Makes a registered task of its folder and options."""
    cls = task_class(name)
    if issubclass(cls, DataProcessor):
        task = _ProcessorTask(data_dir, cls(**options))
    else:
        task = cls(data_dir, **options)
    task.name = name
    return task
