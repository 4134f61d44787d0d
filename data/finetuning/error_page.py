"""Writes the predictions of a dev set as one HTML page."""

import pathlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from data.storage import html_pages

_SCRIPT = pathlib.Path(__file__).with_name("error_page.js")
_NUM_SCORES = 5  # the highest probabilities that are shown


class Judged(NamedTuple):
    """A prediction beside the right answer.

    Attributes:
      id: of the example.
      texts: its texts.
      choices: the choices of a multiple choice; () = none.
      gold: the right label, labels or number.
      prediction: likewise.
      is_right: None = neither right nor wrong, as a number.
      loss: of the model for this example.
      scores: label -> probability, or nothing; of choices in their order.
    """

    id: str
    texts: Sequence[str]
    choices: Sequence[str]
    gold: str
    prediction: str
    is_right: bool | None
    loss: float
    scores: Sequence[tuple[str, float]]


def write_page(path: str, title: str, examples: Iterable[Judged]) -> None:
    """Writes the page.

    Args:
      path: of the page.
      title: of the page.
      examples: in the order of the page.

    Raises:
      OSError: the page cannot be written.
    """
    with html_pages.PageWriter(path, title, _SCRIPT) as page:
        for example in examples:
            best = sorted(example.scores, key=lambda pair: -pair[1])
            shown = {
                "id": example.id,
                "texts": list(example.texts),
                "gold": example.gold,
                "prediction": example.prediction,
                "loss": round(example.loss, 4),
                "scores": [
                    [label, round(score, 4)]
                    for label, score in best[:_NUM_SCORES]
                ],
            }
            if example.choices:
                shown["choices"] = [
                    [label, text]
                    for (label, _), text in zip(
                        example.scores, example.choices, strict=True
                    )
                ]
            if example.is_right is not None:
                shown["right"] = example.is_right
            page.add(shown)
