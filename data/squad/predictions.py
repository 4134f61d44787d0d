"""The predicted answers to questions, and the files of them."""

import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from absl import logging

from data.squad.examples import SquadExample
from data.storage import files

# Of an answer in nbest_predictions.json.
_WRITTEN = ("text", "probability", "start_logit", "end_logit")
# Files that not every prediction has.
_OPTIONAL = ("metrics.json", "null_odds.json", "predictions.html")


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
    not allowed.
    """

    example: SquadExample
    text: str
    answers: list[Answer]
    score_diff: float | None = None

    @property
    def best_text(self) -> str:
        """The best text that is not ""; "" if there is none."""
        return next((one.text for one in self.answers if one.text), "")

    @property
    def answer(self) -> Answer:
        """The entry of `answers` with the text `text`."""
        return next(one for one in self.answers if one.text == self.text)

    def text_at(self, threshold: float) -> str:
        """Returns the answer for a null_score_diff_threshold."""
        if self.score_diff is None:
            return self.text
        return "" if self.score_diff > threshold else self.best_text


def write_files(
    folder: str,
    predictions: Iterable[Prediction],
    version_2: bool,
    others: Sequence[str] = (),
) -> None:
    """Writes predictions.json, nbest_predictions.json and null_odds.json.

    The files equal the original's byte for byte. Files of an earlier prediction
    are removed, except `others`, which the caller writes.
    """
    texts, n_best, odds = {}, {}, {}
    for prediction in predictions:
        qas_id = prediction.example.qas_id
        texts[qas_id] = prediction.text
        n_best[qas_id] = [
            {name: getattr(answer, name) for name in _WRITTEN}
            for answer in prediction.answers
        ]
        odds[qas_id] = prediction.score_diff
    contents = {"predictions.json": texts, "nbest_predictions.json": n_best}
    contents |= {"null_odds.json": odds} if version_2 else {}
    paths = [os.path.join(folder, name) for name in contents]
    with files.whole_files(paths) as temporary:
        for path, content in zip(temporary, contents.values(), strict=True):
            files.write_text(path, json.dumps(content, indent=4) + "\n")
    # Not earlier, so that an error keeps the earlier prediction.
    for name in _OPTIONAL:
        path = os.path.join(folder, name)
        if name not in {*contents, *others} and files.exists(path):
            files.remove(path)
            logging.info("Removed %s, which an earlier prediction wrote.", path)
