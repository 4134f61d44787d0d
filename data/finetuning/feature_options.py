"""How examples become rows, and the features of the rows.

Axes: S sequence, C choices, L labels.
"""

from typing import Any, Self

from data.records.feature_spec import FeatureSpec, input_features
from data.settings import Settings, setting
from data.tasks.task import Task

# The feature of windows with the number of their example, from 0.
EXAMPLE_NUMBER = "example_number"


class FeatureOptions(Settings, kw_only=False):
    """How examples are converted to rows.

    Attributes:
      kind: one of `tasks.KINDS`.
      labels: the labels in the order of their ids.
      max_seq_length: S, tokens of a row with [CLS] and [SEP].
      cut: how a pair that is too long is shortened: `longest` = the longer
        text, token by token; `first` = the first text.
      document_context: fill the row of a tagged sentence with the words around
        it in its document (section 5.3 of the paper).
      stride: wordpieces from a window of a long text to the next, see
        `LongTextOptions`; 0 = long texts are cut.
    """

    kind: str
    labels: tuple[str, ...]
    # At least [CLS] a [SEP] b [SEP].
    max_seq_length: int = setting(128, least=5)
    cut: str = "longest"
    document_context: bool = False
    stride: int = 0

    def _check(self) -> None:
        room = self.max_seq_length - 2
        if self.document_context and self.kind != "tagging":
            raise ValueError(
                f"--document_context is for tagging, not for {self.kind}."
            )
        if self.stride and self.kind == "choice":
            raise ValueError(
                "--long_text=windows is for single texts and words, but the "
                "task is a choice between texts; leave it out."
            )
        if self.stride > room:
            raise ValueError(
                f"--long_text_stride={self.stride}; it must be {room} at most, "
                "--max_seq_length without [CLS] and [SEP], or text is lost."
            )

    @classmethod
    def of_task(cls, task: Task, max_seq_length: int, **others: Any) -> Self:
        """The options for the examples of a task."""
        return cls(task.kind, task.labels, max_seq_length, task.cut, **others)

    @property
    def specs(self) -> tuple[FeatureSpec, ...]:
        """The features of the rows."""
        specs = feature_specs(self.kind, self.max_seq_length, len(self.labels))
        # An example may have several rows, which are pooled.
        if self.stride and self.kind != "tagging":
            return (*specs, FeatureSpec(EXAMPLE_NUMBER, 1))
        return specs


def feature_specs(
    kind: str, max_seq_length: int, num_labels: int
) -> tuple[FeatureSpec, ...]:
    """The features of a task's records, under the original's names.

    S is `max_seq_length`, L `num_labels`, which is C for choice. `INPUTS` are
    each [S], for choice [C * S], one choice after the other. `label_ids` are an
    id [1], for regression a float32 [1], for multilabel 0 and 1 [L], for
    tagging ids [S], beside `label_mask` [S] (1 = first wordpiece of a word with
    a label in this row). `is_real_example` [1] is 0 for a batch's padding.

    Source: file_based_convert_examples_to_features in run_classifier.py.
    """
    num_places = max_seq_length * (num_labels if kind == "choice" else 1)
    if kind == "tagging":
        ids = FeatureSpec("label_ids", max_seq_length, flag="max_seq_length")
        labels = [ids, ids._replace(name="label_mask")]
    else:
        size = num_labels if kind == "multilabel" else 1
        dtype = "float32" if kind == "regression" else "int64"
        labels = [FeatureSpec("label_ids", size, dtype)]
    inputs = input_features(num_places)
    return (*inputs, *labels, FeatureSpec("is_real_example", 1))


class TextFeatures(FeatureOptions):
    """How texts that get a vector each are converted to rows.

    `labels` are names of the C texts of an example. `target_size` is the length
    of `label_ids`, the score or the teacher's vector; 0 = there is neither.
    `vectors_sha256` is the checksum of the teacher's vectors.
    """

    kind: str = "texts"
    labels: tuple[str, ...] = ("text",)
    target_size: int = 0
    vectors_sha256: str = ""

    @property
    def specs(self) -> tuple[FeatureSpec, ...]:
        """The features of the rows: those of a choice, without its label."""
        inputs = input_features(self.max_seq_length * len(self.labels))
        target = FeatureSpec("label_ids", self.target_size, "float32")
        return (*inputs, *[target] * bool(self.target_size))
