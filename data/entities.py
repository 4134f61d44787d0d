"""Labels of words to entities: the spans of a text that have a name."""

import re
from collections.abc import Sequence
from typing import Any

_PREFIX = re.compile("^[BIES]-")  # of an entity's type


def entities_of(
    text: str,
    starts: Sequence[int],
    ends: Sequence[int],
    labels: Sequence[str],
    scores: Sequence[float],
) -> list[dict[str, Any]]:
    """Joins the words of a text to entities, by the rules of conlleval.

    `B-x` begins an entity, `I-x` continues one of the same type; an `I-x` that
    continues none begins one, too. `S-x` is an entity of one word and `E-x` the
    end of one. `O` is not an entity. A word with any other label, such as a
    part of speech, is an entity of its own.

    `starts`, `ends` (exclusive) and `scores` are those of the words. Returns in
    the order of the text `text`, `label` without prefix, `start`, `end` and
    `score`, the mean of its words.
    """
    spans = []
    before = "O"
    for place, label in enumerate(labels):
        goes_on = (
            label.startswith(("I-", "E-"))
            and before.startswith(("B-", "I-"))
            and before[2:] == label[2:]
        )
        if goes_on:
            spans[-1][1] = place + 1
        elif label != "O":
            spans.append([place, place + 1])
        before = label
    return [
        {
            "text": text[starts[first] : ends[last - 1]],
            "label": _PREFIX.sub("", labels[first]),
            "start": starts[first],
            "end": ends[last - 1],
            "score": sum(scores[first:last]) / (last - first),
        }
        for first, last in spans
    ]
