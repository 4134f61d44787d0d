"""task.json: what later programs need to know of a finished run's model."""

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from absl import logging

from data.squad.options import AnswerOptions, WindowOptions
from data.storage import files
from data.storage.json_files import read_json, write_json
from data.tasks.examples import InputExample
from data.tasks.task import KINDS, Task
from modeling.checkpoints.model_folder import DESCRIPTION, VOCABULARIES
from training.model_files.tokenizer import write_vocabulary

_REMEDY = (
    "run its program again with --do_eval or --do_predict, which writes it anew"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description:
    """All that turns texts into a model's input, and its output into answers.

    A subclass names its kinds, `class ADescription(Description, kinds=(...))`,
    and `read` returns it for `task.json` files of these kinds.

    Attributes:
      task_name: what it was trained for.
      kind: one of `tasks.KINDS`, `span` or `pretraining`.
      max_seq_length: most wordpieces of a row.
      do_lower_case: True for an uncased vocabulary.
      model: arguments of the model beside config, dtype and
        use_one_hot_embeddings.
      weights: prefix of the checkpoint, as seen from the folder.
      never_split: see `FullTokenizer`.
    """

    classes: ClassVar[dict[str, type["Description"]]] = {}

    task_name: str
    kind: str
    max_seq_length: int
    do_lower_case: bool
    model: Mapping[str, Any]
    weights: str
    never_split: tuple[str, ...] = ()

    def __init_subclass__(cls, kinds: tuple[str, ...]):
        Description.classes |= dict.fromkeys(kinds, cls)

    def write(self, output_dir: str, vocab_file: str) -> None:
        """Writes `task.json` and a copy of the vocabulary.

        Args:
          output_dir: folder of the run.
          vocab_file: path of the vocabulary.

        Raises:
          OSError: a file cannot be read or written.
        """
        write_vocabulary(output_dir, vocab_file)
        path = os.path.join(output_dir, DESCRIPTION)
        write_json(path, dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskDescription(Description, kinds=KINDS):
    """Describes a `TaskModel`.

    Attributes:
      labels: in the order of their ids.
      is_pair: whether an example has two texts.
      cut: see `FeatureOptions`.
      label_separator: see `Task`.
      document_context: see `FeatureOptions`; a server sees single sentences.
      stride: see `FeatureOptions`.
      pooling: see `LongTextOptions`.
    """

    labels: tuple[str, ...]
    is_pair: bool
    cut: str
    label_separator: str
    document_context: bool
    stride: int = 0
    pooling: str = "mean"

    def __post_init__(self):
        # JSON has lists only.
        object.__setattr__(self, "labels", tuple(self.labels))

    @classmethod
    def of_task(cls, task: Task, **others: Any) -> Self:
        """Describes the model of a task.

        Args:
          task: the task.
          **others: the fields that the task does not determine.
        """
        return cls(
            task_name=task.name,
            kind=task.kind,
            labels=task.labels,
            is_pair=_is_pair(task),
            cut=task.cut,
            label_separator=task.label_separator,
            **others,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanDescription(Description, kinds=("span",)):
    """Describes a `SpanModel`; see `WindowOptions` and `AnswerOptions`."""

    doc_stride: int
    max_query_length: int
    n_best_size: int
    max_answer_length: int
    version_2_with_negative: bool
    null_score_diff_threshold: float

    @property
    def windows(self) -> WindowOptions:
        """Lengths of the windows."""
        return self._options(WindowOptions)

    @property
    def answers(self) -> AnswerOptions:
        """How answers are chosen."""
        return self._options(AnswerOptions)

    def _options(self, cls: type) -> Any:
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: getattr(self, name) for name in names})


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDescription(Description, kinds=("pretraining",)):
    """Describes a `PretrainingModel`.

    Attributes:
      top_k: words for each [MASK].
    """

    top_k: int


def is_finished(output_dir: str) -> bool:
    """Returns whether a finished run has described its model in a folder."""
    return files.exists(os.path.join(output_dir, DESCRIPTION))


def warn_of_changes(output_dir: str, **settings: Any) -> None:
    """Warns if a finished run of a folder read texts in another way.

    Args:
      output_dir: of the run.
      **settings: field of its `Description` -> the value of now. A folder of
        an earlier version may lack it.
    """
    path, before = os.path.join(output_dir, DESCRIPTION), {}
    # A damaged file is written anew at the end of the run.
    with contextlib.suppress(ValueError):
        before = read_json(path) if is_finished(output_dir) else {}
    for name, value in settings.items():
        was = before.get(name, value)
        was = tuple(was) if isinstance(value, tuple) else was  # JSON: lists
        if was != value:
            logging.warning(
                "%s: the model was made with %s %s, but now it is %s, by which "
                "texts become other rows; give the flags of that run.",
                path,
                name,
                was,
                value,
            )


def read(output_dir: str) -> Description:
    """Reads `task.json`.

    Args:
      output_dir: of a finished run.

    Returns:
      The subclass of `Description` for the kind of the model.

    Raises:
      ValueError: the folder has no `task.json`, or one of another version.
    """
    path = os.path.join(output_dir, DESCRIPTION)
    if not is_finished(output_dir):
        raise ValueError(
            f"{output_dir} has no {DESCRIPTION}, so it does not say what its "
            "model is for; give the --output_dir of a finished run. If "
            "this is one of an earlier version, run it again with "
            "--do_eval or --do_predict, which writes it."
        )
    return of_facts(read_json(path, ("kind",), _REMEDY), path)


def of_facts(facts: Mapping[str, Any], path: str) -> Description:
    """Makes the description of the content of `task.json`.

    Args:
      facts: the content.
      path: of the file, for the error.

    Returns:
      The subclass of `Description` for the kind of the model.

    Raises:
      ValueError: it is of another version.
    """
    try:
        return Description.classes[facts["kind"]](**facts)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is of another version ({error}); {_REMEDY}."
        ) from None


def vocab_of(output_dir: str) -> str:
    """Returns the path of the copy that a run makes of its vocabulary."""
    return os.path.join(output_dir, VOCABULARIES[0])


def place_of_weights(prefix: str, output_dir: str) -> str:
    """Returns what `Description.weights` says of a checkpoint.

    Args:
      prefix: of the checkpoint.
      output_dir: of the run.

    Returns:
      The path relative to output_dir, so that the folder can be moved; the
      absolute path of a checkpoint outside of it.
    """
    inside = prefix.removeprefix(os.path.join(output_dir, ""))
    if inside != prefix or "://" in prefix:
        return inside
    return os.path.abspath(prefix)


def _is_pair(task: Task) -> bool:
    """Returns whether the task's first example has two texts."""
    for set_name in (*task.train_sets, *task.dev_sets, *task.test_sets):
        try:
            example = next(task.examples(set_name))
        except (FileNotFoundError, ValueError, StopIteration):
            continue  # The folder does not have this set, or it is empty.
        return isinstance(example, InputExample) and example.text_b is not None
    return False
