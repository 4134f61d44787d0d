"""What a finished output_dir says of its model, for those who use it later."""

import abc
import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Self

from data.squad.options import AnswerOptions, WindowOptions
from data.storage import files
from data.storage.json_files import read_json, write_json
from data.tasks import InputExample, Task

_NAME = "task.json"
_VOCAB = "vocab.txt"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description(abc.ABC):
    """All that turns texts into a model's input, and its output into answers.

    Attributes:
      task_name: what it was trained for.
      kind: one of `tasks.KINDS`, `span` or `pretraining`.
      max_seq_length: most wordpieces of a row.
      do_lower_case: True for an uncased vocabulary.
      model: arguments of the model beside config, dtype and
        use_one_hot_embeddings.
      weights: prefix of the checkpoint, as seen from the folder.
    """

    task_name: str
    kind: str
    max_seq_length: int
    do_lower_case: bool
    model: Mapping[str, Any]
    weights: str

    def write(self, output_dir: str, vocab_file: str) -> None:
        """Writes `task.json` and a copy of the vocabulary.

        Args:
          output_dir: where.
          vocab_file: path of the vocabulary.

        Raises:
          OSError: a file cannot be read or written.
        """
        with files.open_read(vocab_file) as file:
            vocab = file.read().decode("utf-8", "ignore")
        files.write_text(vocab_of(output_dir), vocab)
        path = os.path.join(output_dir, _NAME)
        write_json(path, dataclasses.asdict(self))

    @abc.abstractmethod
    def in_words(self) -> str:
        """What the model does, as Markdown."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskDescription(Description):
    """Of a `TaskModel`.

    Attributes:
      labels: in the order of their ids.
      is_pair: whether an example has two texts.
      cut: see `FeatureOptions`.
      label_separator: see `Task`.
      document_context: see `FeatureOptions`; a server sees single sentences.
    """

    labels: tuple[str, ...]
    is_pair: bool
    cut: str
    label_separator: str
    document_context: bool

    @classmethod
    def of_task(cls, task: Task, **others: Any) -> Self:
        """The description of a task.

        Args:
          task: the task.
          **others: what it does not say.
        """
        return cls(
            task_name=task.name,
            kind=task.kind,
            labels=tuple(task.labels),
            is_pair=_is_pair(task),
            cut=task.cut,
            label_separator=task.label_separator,
            **others,
        )

    def in_words(self) -> str:
        """What the model does, as Markdown."""
        texts = "two texts" if self.is_pair else "a text"
        does = {
            "classification": f"gives {texts} one of these labels",
            "regression": f"gives {texts} a number",
            "multilabel": f"gives {texts} any number of these labels",
            "choice": "chooses one of several texts, by these names",
            "tagging": "gives every word one of these labels",
        }[self.kind]
        labels = ", ".join(f"`{label}`" for label in self.labels)
        alone = ""
        if self.document_context:
            alone = (
                " It was trained with the sentences around in view; here each "
                "is read alone, and answered a little worse."
            )
        # Of a tagged text nothing is lost.
        long = "go on in further rows" if self.kind == "tagging" else "are cut"
        return (
            f"BERT, fine-tuned for the task {self.task_name}: it {does}"
            f"{': ' if labels else ''}{labels}. Texts of more than "
            f"{self.max_seq_length} wordpieces {long}.{alone}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanDescription(Description):
    """Of a `SpanModel`.

    Attributes:
      doc_stride: see `WindowOptions`.
      max_query_length: likewise.
      n_best_size: see `AnswerOptions`.
      max_answer_length: likewise.
      version_2_with_negative: likewise.
      null_score_diff_threshold: likewise.
    """

    doc_stride: int
    max_query_length: int
    n_best_size: int
    max_answer_length: int
    version_2_with_negative: bool
    null_score_diff_threshold: float

    @property
    def windows(self) -> WindowOptions:
        """How long windows are."""
        return WindowOptions(
            self.max_seq_length, self.doc_stride, self.max_query_length
        )

    @property
    def answers(self) -> AnswerOptions:
        """How answers are chosen."""
        return AnswerOptions(
            self.n_best_size,
            self.max_answer_length,
            self.version_2_with_negative,
            self.null_score_diff_threshold,
        )

    def in_words(self) -> str:
        """What the model does, as Markdown."""
        nothing = ""
        if self.version_2_with_negative:
            nothing = (
                ' or says that there is none: the answer is "" if '
                "`null_score_diff` is greater than "
                f"{self.null_score_diff_threshold:g}"
            )
        return (
            "BERT, fine-tuned on questions: it marks the answer in a text"
            f"{nothing}. A long text is read in windows of "
            f"{self.max_seq_length} wordpieces, {self.doc_stride} apart. "
            "`start` and `end` count characters of the text; `answer` is "
            "what stands there."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDescription(Description):
    """Of a `PretrainingModel`.

    Attributes:
      top_k: words for each [MASK].
    """

    top_k: int

    def in_words(self) -> str:
        """What the model does, as Markdown."""
        return (
            f"BERT, pretrained: it gives each `[MASK]` the {self.top_k} "
            "likeliest wordpieces, and the probability that a second text "
            f"follows the first. Texts of more than {self.max_seq_length} "
            "wordpieces are cut."
        )


def is_finished(output_dir: str) -> bool:
    """Whether a run has left its description in a folder."""
    return files.exists(os.path.join(output_dir, _NAME))


def read(output_dir: str) -> Description:
    """Reads `task.json`.

    Args:
      output_dir: of a finished run.

    Returns:
      One of the descriptions above.

    Raises:
      ValueError: the folder has none, or somebody else's.
    """
    path = os.path.join(output_dir, _NAME)
    if not is_finished(output_dir):
        raise ValueError(
            f"{output_dir} has no {_NAME}, so it does not say what its "
            "model is for; give the --output_dir of a finished run. If "
            "this is one of an earlier version, run it again with "
            "--do_eval or --do_predict, which writes it."
        )
    remedy = (
        "run its program again with --do_eval or --do_predict, which writes "
        "it anew"
    )
    facts = read_json(path, ("kind",), remedy)
    try:
        if facts["kind"] == "span":
            return SpanDescription(**facts)
        if facts["kind"] == "pretraining":
            return PretrainingDescription(**facts)
        return TaskDescription(**facts | {"labels": tuple(facts["labels"])})
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is of another version ({error}); {remedy}."
        ) from None


def vocab_of(output_dir: str) -> str:
    """Path of the vocabulary that a run has left in its output_dir."""
    return os.path.join(output_dir, _VOCAB)


def place_of_weights(prefix: str, output_dir: str) -> str:
    """What `Description.weights` says of a checkpoint.

    Args:
      prefix: of the checkpoint.
      output_dir: of the run.

    Returns:
      Its place in output_dir, so that the folder can be moved, or the whole
      path of one that lies elsewhere.
    """
    inside = prefix.removeprefix(os.path.join(output_dir, ""))
    if inside != prefix or "://" in prefix:
        return inside
    return os.path.abspath(prefix)


def weights_of(output_dir: str, description: Description) -> str:
    """Prefix of the checkpoint of a finished run."""
    # `join` knows `/`, but not `gs://`, as the beginning of a whole path.
    if "://" in description.weights:
        return description.weights
    return os.path.join(output_dir, description.weights)


def model_folder(output_dir: str) -> str:
    """The folder of a run's model: of trials that of the chosen one."""
    path = os.path.join(output_dir, "trials.json")
    if not files.exists(path):
        return output_dir
    chosen = read_json(path, ("chosen",), "give the trials' flags again")
    return os.path.join(output_dir, chosen["chosen"])


def _is_pair(task: Task) -> bool:
    """Whether the task's first example has two texts."""
    for set_name in (*task.train_sets, *task.dev_sets, *task.test_sets):
        try:
            example = next(task.examples(set_name))
        except (FileNotFoundError, ValueError, StopIteration):
            continue  # a set that this folder has not, or an empty one
        return isinstance(example, InputExample) and example.text_b is not None
    return False
