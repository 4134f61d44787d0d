"""Scores of windows to answers, question after question.

Axes: N windows, S sequence, K best places (n_best_size).
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from data.squad.candidates import LARGE_SCORE, Candidate, Candidates, Null
from data.squad.examples import SquadExample
from data.squad.final_text import FinalTexts
from data.squad.options import AnswerOptions, WindowOptions
from data.squad.predictions import Answer, Prediction
from data.squad.windows import Window, convert_examples
from data.text.tokenization import BasicTokenizer, FullTokenizer

_WINDOWS_AT_ONCE = 128


def predict(
    examples: Iterable[SquadExample],
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    *,
    tokenizer: FullTokenizer,
    window_options: WindowOptions,
    options: AnswerOptions,
) -> Iterator[Prediction]:
    """Streams the answers to questions.

    Of every window the K best starts and ends are paired; a pair is an answer
    if it lies in the text, is not too long, and no other window shows its
    start with more context. The answers of all windows of a question are
    sorted by the sum of start and end score. Equal ones stay in the order
    of window, start score and end score, equal scores in that of their place.

    "" has the scores of [CLS] in the window where their sum is least.

    Args:
      examples: the questions that were converted to windows, in their order.
      start_logits: float32 [N, S], a row for each window, in their order.
      end_logits: likewise.
      tokenizer: that of the conversion.
      window_options: likewise.
      options: how to choose.

    Yields:
      One for each question.

    Raises:
      ValueError: the scores do not fit the windows, or one is not finite.

    Source: write_predictions in run_squad.py.
    """
    _check_scores(start_logits, end_logits, window_options)
    converted = convert_examples(examples, tokenizer, window_options, False)
    texts = _Texts(tokenizer.basic_tokenizer)
    row = 0
    for questions in _in_blocks(converted):
        num_windows = sum(len(windows) for _, windows in questions)
        rows = slice(row, row + num_windows)
        row += num_windows
        if row > len(start_logits):
            raise _wrong_number(len(start_logits), f"{row} or more")
        found = Candidates.find(
            [windows for _, windows in questions],
            start_logits[rows],
            end_logits[rows],
            options.n_best_size,
            options.max_answer_length,
        )
        for number, (example, windows) in enumerate(questions):
            yield _choose(
                example,
                found.of_question(number, windows),
                found.nulls[number],
                texts,
                options,
            )
    if row != len(start_logits):
        raise _wrong_number(len(start_logits), row)


def _check_scores(
    start_logits: np.ndarray, end_logits: np.ndarray, options: WindowOptions
) -> None:
    expected = (len(start_logits), options.max_seq_length)
    for logits in (start_logits, end_logits):
        if logits.shape != expected:
            raise ValueError(
                f"scores have shape {logits.shape}, expected {expected}: a "
                "row for each window, --max_seq_length in a row."
            )
        if logits.dtype != np.float32:
            raise ValueError(f"scores are {logits.dtype}, expected float32.")
        finite = np.isfinite(logits).all(axis=1)
        if not finite.all():
            raise ValueError(
                f"window {np.argmin(finite)} has a score that is not finite; "
                "the checkpoint is damaged, or its training diverged."
            )


def _wrong_number(num_rows: int, num_windows: int | str) -> ValueError:
    return ValueError(
        f"there are scores of {num_rows} windows, but the questions have "
        f"{num_windows}; score the questions that are to be answered, with "
        "the same lengths and vocabulary."
    )


Question = tuple[SquadExample, list[Window]]


def _in_blocks(converted: Iterable[Question]) -> Iterator[list[Question]]:
    """Takes some questions together: NumPy likes many windows."""
    block, num_windows = [], 0
    for example, windows in converted:
        block.append((example, windows))
        num_windows += len(windows)
        if num_windows >= _WINDOWS_AT_ONCE:
            yield block
            block, num_windows = [], 0
    if block:
        yield block


class _Texts:
    """The texts of wordpieces; keeps those of the paragraph at hand."""

    def __init__(self, tokenizer: BasicTokenizer):
        self._tokenizer = tokenizer
        self._tokenized = self._texts = None

    def find(
        self, example: SquadExample, candidate: Candidate
    ) -> tuple[str, int, int]:
        """See `FinalTexts`."""
        window = candidate.window
        if window.paragraph is not self._tokenized:
            self._tokenized = window.paragraph
            self._texts = FinalTexts(
                example.paragraph, window.paragraph, self._tokenizer
            )
        shift = window.doc_start - window.doc_offset
        return self._texts.find(candidate.start + shift, candidate.end + shift)


def _choose(
    example: SquadExample,
    candidates: Iterable[Candidate],
    null: Null,
    texts: _Texts,
    options: AnswerOptions,
) -> Prediction:
    """Makes texts of the best pairs until there are n different ones."""
    n_best, seen = [], set()
    # "" takes part like any other, behind all that have the same score.
    null_waits = options.version_2_with_negative
    null_score = null.start_logit + null.end_logit
    for candidate in candidates:
        if null_waits and candidate.score < null_score:
            n_best.append(_null_answer(null))
            null_waits = False
        if len(n_best) >= options.n_best_size:
            break
        text, start, end = texts.find(example, candidate)
        if text not in seen:
            seen.add(text)
            scores = candidate.start_logit, candidate.end_logit
            n_best.append(Answer(text, 0.0, *scores, start, end))
    if null_waits:
        # As the original: it may be one more than n.
        n_best.append(_null_answer(null))
    return _prediction(example, n_best, null, options)


def _null_answer(null: Null) -> Answer:
    return Answer("", 0.0, null.start_logit, null.end_logit)


def _prediction(
    example: SquadExample,
    n_best: list[Answer],
    null: Null,
    options: AnswerOptions,
) -> Prediction:
    """Adds probabilities and decides whether there is an answer."""
    if not n_best:
        # The original's word where nothing can be said.
        n_best = [Answer("empty", 0.0, 0.0, 0.0)]
    scores = [answer.start_logit + answer.end_logit for answer in n_best]
    answers = [
        answer._replace(probability=probability)
        for answer, probability in zip(n_best, softmax(scores), strict=True)
    ]
    if not options.version_2_with_negative:
        return Prediction(
            example, answers[0].text, answers, None, answers[0].text
        )
    best = next((answer for answer in answers if answer.text), None)
    if best:
        score_diff = null.score - best.start_logit - best.end_logit
    else:
        # Differs from the original: "" is the answer where there is nothing
        # else, because there the original stops with an AttributeError.
        score_diff = LARGE_SCORE
    prediction = Prediction(
        example, "", answers, score_diff, best.text if best else ""
    )
    prediction.text = prediction.text_at(options.null_score_diff_threshold)
    return prediction


def softmax(scores: Sequence[float]) -> list[float]:
    """The probabilities of scores.

    Source: _compute_softmax in run_squad.py.
    """
    highest = max(scores)
    exponentials = [math.exp(score - highest) for score in scores]
    total = sum(exponentials)
    return [exponential / total for exponential in exponentials]
