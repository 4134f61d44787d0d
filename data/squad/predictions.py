"""The predicted answers to a question."""

import dataclasses
from typing import NamedTuple

from data.squad.examples import SquadExample


class Answer(NamedTuple):
    """One of the n best answers; `text` "" = no answer.

    `probability` is the softmax over the n best, the logits are the scores of
    the first and the last token. `start` and `end` (exclusive) are characters
    of the context; None = the context does not contain the text.
    """

    text: str
    probability: float
    start_logit: float
    end_logit: float
    start: int | None = None
    end: int | None = None


@dataclasses.dataclass(slots=True)
class Prediction:
    """The answers to a question, best first, and the chosen text.

    `score_diff` is the score of "" minus that of the best text; None = "" is
    not allowed. `best_text` is the best that is not ""; "" if there is none.
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
