"""Writes questions, predictions and answers as one HTML page.

The page is `page.html` with the predictions as JSON. It needs no network. Its
script inserts all texts as text nodes, so that they are never run as code.
"""

import contextlib
import html
import json
import pathlib
from typing import Any

from data.squad.predictions import Answer, Prediction
from data.squad.scoring import QuestionScore
from data.storage import files

_TEMPLATE = pathlib.Path(__file__).with_name("page.html")
_NUM_OTHERS = 4  # next best answers that are shown
# Characters that could end the page's script; JSON allows them as escapes.
_ESCAPES = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


class PageWriter:
    """Writes the page one paragraph at a time; use it as a context manager."""

    def __init__(self, path: str, title: str):
        self._path = path
        self._title = title
        self._stack = contextlib.ExitStack()
        self._paragraph: Any = None
        self._questions: list[dict[str, Any]] = []
        self._num_written = 0

    def __enter__(self):
        with self._stack:
            (temporary,) = self._stack.enter_context(
                files.whole_files([self._path])
            )
            self._file = self._stack.enter_context(files.open_write(temporary))
            template = _TEMPLATE.read_text("utf-8")
            template = template.replace("{{title}}", html.escape(self._title))
            before, self._after = template.split("{{paragraphs}}")
            self._write(before)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *error):
        if error[0] is None:
            self._end_paragraph()
            self._write(self._after)
        return self._stack.__exit__(*error)

    def add(self, prediction: Prediction, score: QuestionScore | None) -> None:
        """Adds a question.

        Args:
          prediction: its answers; questions on one paragraph are consecutive.
          score: score of the answer; None = the right answer is unknown.
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
        paragraph = {
            "title": self._paragraph.title,
            "context": self._paragraph.context,
            "questions": self._questions,
        }
        text = json.dumps(paragraph, ensure_ascii=False).translate(_ESCAPES)
        self._write(f"{',' if self._num_written else ''}\n{text}")
        self._num_written += 1
        self._questions = []

    def _write(self, text: str) -> None:
        self._file.write(text.encode("utf-8", "replace"))


def utf16_length(text: str) -> int:
    """Length in JavaScript, where characters above U+FFFF count as 2."""
    return len(text) + sum(character > "\uffff" for character in text)
