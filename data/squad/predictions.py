"""The predicted answers to a question."""

import dataclasses
from typing import NamedTuple

from data.squad.examples import SquadExample


class Answer(NamedTuple):
    """One of the n best.

    Attributes:
      text: as in the paragraph; "" = no answer.
      probability: among the n best.
      start_logit: score of its first token.
      end_logit: of its last token.
      start: first character in the context; None = it is not from there.
      end: behind the last one, likewise.
    """

    text: str
    probability: float
    start_logit: float
    end_logit: float
    start: int | None = None
    end: int | None = None


@dataclasses.dataclass(slots=True)
class Prediction:
    """What was found for a question.

    Attributes:
      example: the question.
      text: the answer.
      answers: the n best, the best first; with "" if that is allowed.
      score_diff: the score of "" less that of the best text; None if "" is not
        allowed.
      best_text: the best text that is not "", which is the answer if there
        must be one; "" if there is none.
    """

    example: SquadExample
    text: str
    answers: list[Answer]
    score_diff: float | None
    best_text: str

    @property
    def answer(self) -> Answer:
        """The one of the n best that `text` is."""
        for answer in self.answers:
            if answer.text == self.text:
                return answer
        raise LookupError(f"{self.text!r} is not among the answers.")

    def text_at(self, threshold: float) -> str:
        """The answer that another null_score_diff_threshold would give."""
        if self.score_diff is None:
            return self.text
        return "" if self.score_diff > threshold else self.best_text
