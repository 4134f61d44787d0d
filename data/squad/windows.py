"""Questions to windows: rows that hold the question and a part of the text.

    [CLS] question [SEP] wordpieces of the paragraph, from doc_start on [SEP]

Axes: N windows, S sequence.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from data.records.feature_spec import FeatureSpec
from data.squad.examples import Paragraph, SquadExample
from data.squad.options import NUM_SPECIAL, WindowOptions
from data.text.tokenization import FullTokenizer

FIRST_UNIQUE_ID = 1_000_000_000
# [CLS] and the [SEP] after the question precede the text.
_NUM_BEFORE_TEXT = 2


class TokenizedParagraph:
    """The wordpieces of a paragraph.

    Args:
      paragraph: its words.
      tokenizer: cuts them.

    Attributes:
      ids: int32 ids of the wordpieces.
      first_token: for each word where its wordpieces begin; a word of control
        characters has none.
    """

    def __init__(self, paragraph: Paragraph, tokenizer: FullTokenizer):
        self._tokenizer = tokenizer
        ids, self.first_token = [], []
        for word in paragraph.doc_tokens:
            self.first_token.append(len(ids))
            ids += tokenizer.encode(word)
        self.ids = np.array(ids, np.int32)

    def tokens(self, start: int, end: int) -> list[str]:
        """Wordpieces themselves, from one to another, exclusive."""
        return self._tokenizer.convert_ids_to_tokens(
            self.ids[start:end].tolist()
        )

    @functools.cached_property
    def word_of_token(self) -> list[int]:
        """For each wordpiece the number of its word."""
        sizes = np.diff([*self.first_token, len(self.ids)])
        return np.repeat(np.arange(len(sizes)), sizes).tolist()


@dataclasses.dataclass(slots=True)
class Window:
    """One row.

    Attributes:
      unique_id: number of the row, from 1000000000 on.
      example_index: number of its question.
      doc_span_index: number among the windows of its question.
      paragraph: where the text is from.
      query_ids: int32 ids of the question.
      doc_start: first wordpiece of the paragraph in the row.
      doc_length: how many there are.
      best_start: the wordpieces from here on have in this window more context
        than in any other; counted in the paragraph.
      best_end: up to here, exclusive.
      start_position: place in the row of the answer's first token; 0 = not in
        this window, or unanswerable; None = not training.
      end_position: of its last token, likewise.
      is_impossible: see `SquadExample`.

    Source: InputFeatures in run_squad.py.
    """

    unique_id: int
    example_index: int
    doc_span_index: int
    paragraph: TokenizedParagraph
    query_ids: np.ndarray
    doc_start: int
    doc_length: int
    best_start: int
    best_end: int
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False

    @property
    def doc_offset(self) -> int:
        """Where in the row the text begins."""
        return len(self.query_ids) + _NUM_BEFORE_TEXT

    @property
    def num_tokens(self) -> int:
        """Tokens of the row, without padding."""
        return len(self.query_ids) + self.doc_length + NUM_SPECIAL

    @property
    def doc_ids(self) -> np.ndarray:
        """The ids of the text in the row."""
        return self.paragraph.ids[
            self.doc_start : self.doc_start + self.doc_length
        ]

    @property
    def token_to_orig_map(self) -> dict[int, int]:
        """Place in the row -> word of the paragraph."""
        words = self.paragraph.word_of_token
        return {
            self.doc_offset + i: words[self.doc_start + i]
            for i in range(self.doc_length)
        }

    @property
    def token_is_max_context(self) -> dict[int, bool]:
        """Place in the row -> whether no other window shows it better."""
        return {
            self.doc_offset + i: (
                self.best_start <= self.doc_start + i < self.best_end
            )
            for i in range(self.doc_length)
        }


@dataclasses.dataclass
class WindowsReport:
    """What was made.

    Attributes:
      num_examples: questions.
      num_windows: rows.
      num_queries_cut: questions that lost tokens to max_query_length.
      num_without_answer: rows of answerable questions that do not hold the
        answer: they are trained on position 0.
    """

    num_examples: int = 0
    num_windows: int = 0
    num_queries_cut: int = 0
    num_without_answer: int = 0


def convert_examples(
    examples: Iterable[SquadExample],
    tokenizer: FullTokenizer,
    options: WindowOptions,
    is_training: bool,
    report: WindowsReport | None = None,
) -> Iterator[tuple[SquadExample, list[Window]]]:
    """Streams questions with their windows.

    A window that does not hold the answer is kept, with start and end at 0
    ([CLS]), as if the question were unanswerable; so does the original.

    Args:
      examples: questions; those on one paragraph best come together, since
        its wordpieces are kept for the next question.
      tokenizer: with [CLS] and [SEP].
      options: lengths.
      is_training: whether the answer's place is needed.
      report: filled on the way.

    Yields:
      A question and its windows; none if its paragraph is empty.

    Source: convert_examples_to_features in run_squad.py.
    """
    report = WindowsReport() if report is None else report
    paragraph = tokenized = None
    for example_index, example in enumerate(examples):
        if example.paragraph is not paragraph:
            paragraph = example.paragraph
            tokenized = TokenizedParagraph(paragraph, tokenizer)
        query_ids = tokenizer.encode(example.question_text)
        report.num_queries_cut += len(query_ids) > options.max_query_length
        query_ids = np.array(query_ids[: options.max_query_length], np.int32)
        windows = [
            Window(
                FIRST_UNIQUE_ID + report.num_windows + number,
                example_index,
                number,
                tokenized,
                query_ids,
                *span,
                is_impossible=example.is_impossible,
            )
            for number, span in enumerate(
                spans(
                    len(tokenized.ids),
                    options.max_seq_length - len(query_ids) - NUM_SPECIAL,
                    options.doc_stride,
                )
            )
        ]
        if is_training:
            _place_answer(example, windows, tokenizer, report)
        report.num_examples += 1
        report.num_windows += len(windows)
        yield example, windows


class Span(NamedTuple):
    """The part of a paragraph in a window; see `Window`."""

    doc_start: int
    doc_length: int
    best_start: int
    best_end: int


@functools.lru_cache(maxsize=1 << 14)
def spans(num_tokens: int, room: int, stride: int) -> tuple[Span, ...]:
    """Cuts a paragraph.

    Args:
      num_tokens: its wordpieces.
      room: wordpieces in a window.
      stride: from a window to the next.

    Returns:
      The parts, in their order. A token's best part is that with the greatest
      min(tokens left of it, tokens right of it) + 0.01 length, of equals the
      first. These parts' tokens lie side by side.

    Source: _check_is_max_context in run_squad.py.
    """
    if num_tokens <= room:
        return (Span(0, num_tokens, 0, num_tokens),) if num_tokens else ()
    # The original's min(length, doc_stride) is one of the two always: only
    # the last part is shorter than the room.
    last = -(-(num_tokens - room) // min(stride, room))
    starts = np.arange(last + 1) * min(stride, room)
    lengths = np.minimum(room, num_tokens - starts)
    token = np.arange(num_tokens)
    left = token - starts[:, None]
    right = lengths[:, None] - 1 - left
    least = np.minimum(left, right)
    # In floats as the original, whose ties are those of float64.
    score = np.where(least >= 0, least + 0.01 * lengths[:, None], -1.0)
    best = np.argmax(score, axis=0)  # of equals the first
    numbers = np.arange(last + 1)
    return tuple(
        map(
            Span,
            starts.tolist(),
            lengths.tolist(),
            # Parts come to be the best one after the other.
            np.searchsorted(best, numbers, "left").tolist(),
            np.searchsorted(best, numbers, "right").tolist(),
        )
    )


def _place_answer(
    example: SquadExample,
    windows: Sequence[Window],
    tokenizer: FullTokenizer,
    report: WindowsReport,
) -> None:
    """Sets the places of the answer."""
    start, end = -1, -1
    if not example.is_impossible and windows:
        start, end = _answer_tokens(example, windows[0].paragraph, tokenizer)
    for window in windows:
        window.start_position = window.end_position = 0
        if example.is_impossible:
            continue
        # Differs from the original: an answer without wordpieces, such as a
        # zero-width space, is in no window, because it would end before it
        # begins.
        if (
            window.doc_start <= start <= end
            and end < window.doc_start + window.doc_length
        ):
            shift = window.doc_offset - window.doc_start
            window.start_position = start + shift
            window.end_position = end + shift
        else:
            report.num_without_answer += 1


def _answer_tokens(
    example: SquadExample,
    paragraph: TokenizedParagraph,
    tokenizer: FullTokenizer,
) -> tuple[int, int]:
    """First and last wordpiece of the answer.

    Those of its words, or the part of them that is the answer exactly: for
    the answer 1895 in the word (1895-1943). four tokens are left aside.

    Source: _improve_answer_span in run_squad.py.
    """
    first = [*paragraph.first_token, len(paragraph.ids)]
    start = first[example.start_position]
    end = first[example.end_position + 1]
    answer = tokenizer.encode(example.orig_answer_text)
    ids = paragraph.ids[start:end].tolist()
    for i in range(len(ids) - len(answer) + 1):
        if answer and ids[i : i + len(answer)] == answer:
            return start + i, start + i + len(answer) - 1
    return start, end - 1


def feature_specs(
    max_seq_length: int, is_training: bool
) -> tuple[FeatureSpec, ...]:
    """The features of a record, under the original's names.

    Args:
      max_seq_length: S, tokens with padding.
      is_training: whether the answer's place belongs to them.

    Returns:
      `unique_ids` [1]; `input_ids`, `input_mask` (1 = token, 0 = padding) and
      `segment_ids` (0 = question, 1 = text), each [S]; in training
      `start_positions`, `end_positions` and `is_impossible`, each [1].

    Source: FeatureWriter in run_squad.py.
    """
    answer = ("start_positions", "end_positions", "is_impossible")
    return (
        FeatureSpec("unique_ids", 1),
        *(
            FeatureSpec(name, max_seq_length, flag="max_seq_length")
            for name in ("input_ids", "input_mask", "segment_ids")
        ),
        *(FeatureSpec(name, 1) for name in answer if is_training),
    )
