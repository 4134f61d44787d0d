"""Writes questions, predictions and answers as one HTML page."""

import pathlib
from typing import Any

from data.squad.predictions import Answer, Prediction
from data.squad.scoring import QuestionScore
from data.storage import html_pages

_SCRIPT = pathlib.Path(__file__).with_name("page.js")
_NUM_OTHERS = 4  # next best answers that are shown


class PageWriter:
    """Writes the page one paragraph at a time; use it as a context manager."""

    def __init__(self, path: str, title: str):
        self._page = html_pages.open_page(path, title, _SCRIPT)
        self._paragraph: Any = None
        self._questions: list[dict[str, Any]] = []

    def __enter__(self):
        self._add = self._page.__enter__()
        return self

    def __exit__(self, *error):
        if error[0] is None:
            self._end_paragraph()
        return self._page.__exit__(*error)

    def add(self, prediction: Prediction, score: QuestionScore | None) -> None:
        """Adds a question; those on one paragraph are consecutive.

        A score of None means that the right answer is unknown.
        """
        example = prediction.example
        if example.paragraph is not self._paragraph:
            self._end_paragraph()
            self._paragraph = example.paragraph
        answer = prediction.answer
        others = [other for other in prediction.answers if other is not answer]
        question = {
            "id": example.qas_id,
            "question": example.question_text,
            "answer": self._shown(answer, prediction.text),
            "others": [self._shown(x) for x in others[:_NUM_OTHERS]],
        }
        if prediction.score_diff is not None:
            question["diff"] = round(prediction.score_diff, 3)
        if example.answers is not None:
            # Without duplicates, in order.
            question["given"] = list(dict.fromkeys(example.answers))
        if score:
            question["exact"] = score.exact
            question["f1"] = round(score.f1, 4)
        self._questions.append(question)

    def _shown(self, answer: Answer, text: str | None = None) -> dict[str, Any]:
        """An answer as JSON for the page."""
        shown = {
            "text": answer.text if text is None else text,
            "probability": round(answer.probability, 4),
        }
        if answer.start is not None:
            context = self._paragraph.context
            shown["start"] = utf16_length(context[: answer.start])
            shown["end"] = utf16_length(context[: answer.end])
        return shown

    def _end_paragraph(self) -> None:
        if not self._questions:
            return
        self._add(
            {
                "title": self._paragraph.title,
                "context": self._paragraph.context,
                "questions": self._questions,
            }
        )
        self._questions = []


def utf16_length(text: str) -> int:
    """Length in JavaScript, where characters above U+FFFF count as 2."""
    return len(text) + sum(character > "\uffff" for character in text)
