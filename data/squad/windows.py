"""Converts questions to windows: rows of the question and a part of the text.

    [CLS] question [SEP] wordpieces of the paragraph from doc_start [SEP]

Axes: N windows, S sequence.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from data.progress import tracked
from data.records.feature_spec import FeatureSpec, input_features
from data.squad.articles import SquadArticles
from data.squad.examples import SquadExample, SquadReport, read_examples
from data.squad.paragraphs import TokenizedParagraph
from data.squad.window_options import NUM_SPECIAL, WindowOptions
from data.text.spans import Span, spans
from data.text.tokenization import FullTokenizer

# [CLS] and the [SEP] after the question precede the text.
_NUM_BEFORE_TEXT = 2
# The features of an answer in training.
LABELS = ("start_positions", "end_positions", "is_impossible")


@dataclasses.dataclass(slots=True)
class Window:
    """One row.

    Attributes:
      paragraph: the wordpieces of the text.
      query_ids: int32, the ids of the question.
      span: the wordpieces of the paragraph in the row.
      labels: the values of `LABELS`: the first and the last token of the answer
        in the row, 0 = it is not in this window, or there is none; and whether
        the question is marked as unanswerable. All are 0 without training.

    Source: InputFeatures in run_squad.py.
    """

    paragraph: TokenizedParagraph
    query_ids: np.ndarray
    span: Span
    labels: tuple[int, int, int] = (0, 0, 0)

    @property
    def doc_offset(self) -> int:
        """Index in the row of the first token of the text."""
        return len(self.query_ids) + _NUM_BEFORE_TEXT

    @property
    def doc_ids(self) -> np.ndarray:
        """The ids of the text in the row."""
        start = self.span.doc_start
        return self.paragraph.ids[start : start + self.span.doc_length]

    @property
    def tokens(self) -> np.ndarray:
        """The ids of the row, without padding: int32."""
        vocab = self.paragraph.tokenizer.vocab
        cls, sep = [vocab["[CLS]"]], [vocab["[SEP]"]]
        parts = (cls, self.query_ids, sep, self.doc_ids, sep)
        return np.concatenate(parts, dtype=np.int32)

    def place(self, start: int, end: int) -> bool:
        """Labels an answer, first to last wordpiece; False = not in the row."""
        # Differs from the original: an answer without wordpieces, such as a
        # zero-width space, is in no window, because it would end before it
        # begins.
        first = self.span.doc_start
        if is_here := first <= start <= end < first + self.span.doc_length:
            shift = self.doc_offset - first
            self.labels = (start + shift, end + shift, 0)
        return is_here


Question = tuple[SquadExample, list[Window]]


def convert_examples(
    examples: Iterable[SquadExample],
    tokenizer: FullTokenizer,
    options: WindowOptions,
    report: SquadReport | None = None,
) -> Iterator[Question]:
    """Yields each question with its windows.

    As in the original, a window that does not contain the answer is kept, with
    start and end at 0 ([CLS]), as if the question were unanswerable.

    Questions on one paragraph should be consecutive, because its wordpieces are
    kept for the next question. `report` is updated. An empty paragraph has no
    windows.

    Source: convert_examples_to_features in run_squad.py.
    """
    report = SquadReport() if report is None else report
    paragraph = tokenized = None
    for example in examples:
        if example.paragraph is not paragraph:
            paragraph = example.paragraph
            tokenized = TokenizedParagraph(paragraph, tokenizer)
        query_ids = tokenizer.encode(example.question_text)
        report.num_queries_cut += len(query_ids) > options.max_query_length
        query_ids = np.array(query_ids[: options.max_query_length], np.int32)
        room = options.max_seq_length - len(query_ids) - NUM_SPECIAL
        parts = spans(len(tokenized.ids), room, options.doc_stride)
        windows = [Window(tokenized, query_ids, part) for part in parts]
        if example.is_impossible:
            for window in windows:
                window.labels = (0, 0, 1)
        elif example.start_position is not None:
            answer = tokenized.answer_tokens(example)
            found = [window.place(*answer) for window in windows]
            report.num_without_answer += found.count(False)
        report.num_examples += 1
        report.num_windows += len(windows)
        yield example, windows


@dataclasses.dataclass
class Questions:
    """Questions and their windows, of which records and answers are made.

    `is_training` and `version_2_with_negative` are as in `read_examples`.
    """

    data: SquadArticles
    tokenizer: FullTokenizer
    options: WindowOptions
    is_training: bool = False
    version_2_with_negative: bool = False
    report: SquadReport = dataclasses.field(default_factory=SquadReport)

    @functools.cached_property
    def examples(self) -> list[SquadExample]:
        """The questions in the order of the file; see `read_examples`."""
        how = self.is_training, self.version_2_with_negative, self.report
        return list(read_examples(self.data, *how))

    @functools.cached_property
    def converted(self) -> list[Question]:
        """Each question with its windows."""
        told = f"reading {self.data.name}"
        examples = tracked(self.examples, told, "questions")
        how = self.tokenizer, self.options, self.report
        return list(convert_examples(examples, *how))


def feature_specs(length: int, is_training: bool) -> tuple[FeatureSpec, ...]:
    """The features of a record, under the original's names; `length` is S.

    They are `unique_ids` [1]; `input_ids`, `input_mask` (1 = token, 0 =
    padding) and `segment_ids` (0 = question, 1 = text), each [S]; in training
    also the `LABELS`, each [1].

    Source: FeatureWriter in run_squad.py.
    """
    return (
        FeatureSpec("unique_ids", 1),
        *input_features(length),
        *(FeatureSpec(name, 1) for name in LABELS if is_training),
    )


def columns(windows: Sequence[Window], length: int) -> dict[str, np.ndarray]:
    """Returns the features of `feature_specs`, without `unique_ids`."""
    tokens = [window.tokens for window in windows]
    offsets = np.array([window.doc_offset for window in windows])
    place = np.arange(length)
    mask = place < np.array(list(map(len, tokens)))[:, None]
    input_ids = np.zeros(mask.shape, np.int32)
    input_ids[mask] = np.concatenate(tokens)
    labels = np.array([window.labels for window in windows], np.int32)
    return {
        "input_ids": input_ids,
        "input_mask": mask.view(np.uint8),
        "segment_ids": (mask & (place >= offsets[:, None])).view(np.uint8),
        **dict(zip(LABELS, labels.T[..., None], strict=True)),
    }
