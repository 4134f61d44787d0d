"""The predicted answers to questions, and the files of them."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from absl import logging

from data.squad.examples import SquadExample
from data.storage import files


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


@contextlib.contextmanager
def open_writer(
    folder: str, version_2_with_negative: bool
) -> Iterator[Callable[[Prediction], None]]:
    """Opens predictions.json, nbest_predictions.json and null_odds.json.

    Yields a function that adds a question. The files equal the original's
    `json.dumps(all, indent=4)` byte for byte, and appear when the block ends
    without an error.
    """
    names = ["predictions.json", "nbest_predictions.json"]
    names += ["null_odds.json"] * version_2_with_negative
    paths = [os.path.join(folder, name) for name in names]
    before = "{\n"
    with contextlib.ExitStack() as stack:
        temporary = stack.enter_context(files.whole_files(paths))
        opened = [
            stack.enter_context(files.open_write(path)) for path in temporary
        ]

        def write(prediction: Prediction) -> None:
            nonlocal before
            qas_id = json.dumps(prediction.example.qas_id)
            texts = [
                json.dumps(prediction.text),
                _n_best(prediction.answers),
                repr(prediction.score_diff),
            ]
            for file, text in zip(opened, texts, strict=False):
                file.write(f"{before}    {qas_id}: {text}".encode())
            before = ",\n"

        yield write
        for file in opened:
            file.write(b"{}\n" if before == "{\n" else b"\n}\n")


def _n_best(answers: list[Answer]) -> str:
    """Answers as JSON, in a tenth of the time of `json.dumps` with indent."""
    texts = [
        f'        {{\n            "text": {json.dumps(answer.text)},\n'
        f'            "probability": {answer.probability!r},\n'
        f'            "start_logit": {answer.start_logit!r},\n'
        f'            "end_logit": {answer.end_logit!r}\n        }}'
        for answer in answers
    ]
    return "[\n" + ",\n".join(texts) + "\n    ]"


def remove_unwritten(
    folder: str, *, metrics: bool, odds: bool, page: bool
) -> None:
    """Removes the files of an earlier prediction that are not replaced."""
    for name, is_written in (
        ("metrics.json", metrics),
        ("null_odds.json", odds),
        ("predictions.html", page),
    ):
        path = os.path.join(folder, name)
        if not is_written and files.exists(path):
            files.remove(path)
            logging.info("Removed %s, which an earlier prediction wrote.", path)
