"""Writes the predictions of a dev set as one HTML page."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from data.storage import html_pages

_SCRIPT = pathlib.Path(__file__).with_name("error_page.js")
_NUM_SCORES = 5  # the highest probabilities that are shown


class Judged(NamedTuple):
    """A prediction beside the right answer: a label, labels or a number.

    `choices` are those of a multiple choice, () = none. `right` is None for
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
    right: bool | None
    loss: float
    scores: Sequence[tuple[str, float]]
    shaded: Sequence[Sequence[tuple[str, float]]] = ()
    explained: str = ""


def write_page(
    path: str,
    title: str,
    examples: Iterable[Judged],
    calibrated: Mapping[str, Any] | None = None,
) -> None:
    """Writes the page, with the examples in the given order.

    `calibrated` are `calibration.figures`; None = it is not calibrated.
    """
    facts = {"calibrated": dict(calibrated or {})}
    with html_pages.open_page(path, title, _SCRIPT, facts) as add:
        for one in examples:
            best = sorted(one.scores, key=lambda pair: -pair[1])[:_NUM_SCORES]
            labels = (label for label, _ in one.scores)
            shown = one._asdict() | {
                "loss": round(one.loss, 4),
                "scores": _rounded(best),
                "choices": [*zip(labels, one.choices, strict=False)],
                "shaded": [*map(_rounded, one.shaded)],
            }
            # The page looks whether these are there.
            optional = ("choices", "shaded", "explained", "right")
            absent = [x for x in optional if shown[x] in ([], "", None)]
            add({n: x for n, x in shown.items() if n not in absent})


def _rounded(pairs: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    return [(name, round(value, 4)) for name, value in pairs]
