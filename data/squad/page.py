"""Writes questions, predictions and answers as one HTML page."""

import itertools
import pathlib
from collections.abc import Iterable
from typing import Any

from data.squad.predictions import Answer, Prediction
from data.squad.scoring import QuestionScore
from data.storage import html_pages

_SCRIPT = pathlib.Path(__file__).with_name("page.js")
_NUM_OTHERS = 4  # next best answers that are shown

Scored = tuple[Prediction, QuestionScore | None]  # None = unknown answer


def write_page(path: str, title: str, scored: Iterable[Scored]) -> None:
    """Writes the page of questions, those on one paragraph consecutive."""
    with html_pages.open_page(path, title, _SCRIPT) as add:
        for _, group in itertools.groupby(
            scored, lambda pair: id(pair[0].example.paragraph)
        ):
            pairs = list(group)
            paragraph = pairs[0][0].example.paragraph
            shown = {"title": paragraph.title, "context": paragraph.context}
            add(shown | {"questions": list(map(_question, pairs))})


def _question(scored: Scored) -> dict[str, Any]:
    prediction, score = scored
    example, answer = prediction.example, prediction.answer
    context = example.paragraph.context
    others = [other for other in prediction.answers if other is not answer]
    question = {
        "id": example.qas_id,
        "question": example.question_text,
        "answer": _shown(answer, context),
        "others": [_shown(other, context) for other in others[:_NUM_OTHERS]],
    }
    if prediction.score_diff is not None:
        question["diff"] = round(prediction.score_diff, 3)
    if example.answers is not None:
        question["given"] = list(dict.fromkeys(example.answers))
    if score:
        question |= {"exact": score.exact, "f1": round(score.f1, 4)}
    return question


def _shown(answer: Answer, context: str) -> dict[str, Any]:
    shown = {"text": answer.text, "probability": round(answer.probability, 4)}
    if answer.start is not None:
        shown["start"] = _utf16_length(context[: answer.start])
        shown["end"] = _utf16_length(context[: answer.end])
    return shown


def _utf16_length(text: str) -> int:
    """Length in JavaScript, where characters above U+FFFF count as 2."""
    return len(text) + sum(character > "\uffff" for character in text)
