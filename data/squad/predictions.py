"""The predicted answers to a question."""

import dataclasses
from typing import NamedTuple

from data.squad.examples import SquadExample


class Answer(NamedTuple):
    """One of the n best answers.

    Attributes:
      text: text of the paragraph; "" = no answer.
      probability: softmax over the n best.
      start_logit: score of the first token.
      end_logit: score of the last token.
      start: index of the first character in the context; None = the text is
        not from the context.
      end: end (exclusive) of the characters, likewise.
    """

    text: str
    probability: float
    start_logit: float
    end_logit: float
    start: int | None = None
    end: int | None = None


@dataclasses.dataclass(slots=True)
class Prediction:
    """The answers to a question.

    Attributes:
      example: the question.
      text: the chosen answer.
      answers: the n best answers, best first.
      score_diff: the score of "" minus the score of the best text; None = ""
        is not allowed.
      best_text: the best text that is not ""; "" if there is none.
    """

    example: SquadExample
    text: str
    answers: list[Answer]
    score_diff: float | None
    best_text: str

    @property
    def answer(self) -> Answer:
        """The entry of `answers` with the text `text`."""
        for answer in self.answers:
            if answer.text == self.text:
                return answer
        raise LookupError(f"{self.text!r} is not among the answers.")

    def text_at(self, threshold: float) -> str:
        """Returns the answer for a null_score_diff_threshold."""
        if self.score_diff is None:
            return self.text
        return "" if self.score_diff > threshold else self.best_text
