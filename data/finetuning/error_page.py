"""Writes the predictions of a dev set as one HTML page."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from data.storage import html_pages

_SCRIPT = pathlib.Path(__file__).with_name("error_page.js")
_NUM_SCORES = 5  # the highest probabilities that are shown


class Judged(NamedTuple):
    """A prediction beside the right answer: a label, labels or a number.

    `choices` are those of a multiple choice, () = none. `is_right` is None for
    a number, which is neither right nor wrong. `loss` is the model's for this
    example. `scores` are label -> probability, or empty; those of choices in
    their order. `shaded` are the parts of each text with what they add to the
    score of `explained`; () = unknown.
    """

    id: str
    texts: Sequence[str]
    choices: Sequence[str]
    gold: str
    prediction: str
    is_right: bool | None
    loss: float
    scores: Sequence[tuple[str, float]]
    shaded: Sequence[Sequence[tuple[str, float]]] = ()
    explained: str = ""


def write_page(
    path: str,
    title: str,
    examples: Iterable[Judged],
    answers_above: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Writes the page, with the examples in the given order.

    For `answers_above` see `calibration.figures`; () = no table.
    """
    facts = {"above": list(answers_above)}
    with html_pages.open_page(path, title, _SCRIPT, facts) as add:
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
            if example.shaded:
                shown["shaded"] = [
                    [[part, round(value, 4)] for part, value in text]
                    for text in example.shaded
                ]
                shown["explained"] = example.explained
            if example.is_right is not None:
                shown["right"] = example.is_right
            add(shown)
