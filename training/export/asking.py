"""What a model is asked, and its answers: in Python, and as lines of text."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from data.calibration import THRESHOLD
from data.tables import text_of
from data.text.tokenization import whole_characters

_MASK = "[MASK]"
# Kinds of model that take a text or a pair.
PAIRS = ("classification", "multilabel", "regression")
# Kind of model -> a line for people.
_LINES = {
    "classification": "{label}\t{score:.4f}\t{line}",
    "multilabel": "{labels}\t{line}",
    "regression": "{score:.4f}\t{line}",
    "choice": "{choice}\t{score:.4f}\t{line}",
    "span": "{answer}\t{score:.4f}\t{line}",
}


def listed(texts: Iterable[Any], least: int = 1) -> list[Any]:
    """Returns texts as a list; refuses a lone text, a table and too few."""
    is_other = isinstance(texts, Mapping | str | bytes)
    is_other |= hasattr(texts, "columns")  # as a DataFrame
    if is_other or not isinstance(texts, Iterable):
        raise ValueError(
            f"texts is {texts!r:.60}, a {type(texts).__name__}, expected a "
            "list: put a single text into a list; of a table pass a column, "
            "such as texts['text'], or list(zip(...)) of two."
        )
    texts = list(texts)
    if len(texts) < least:
        raise ValueError("texts is an empty list, expected one text at least.")
    return texts


def checked_row(number: int, text: Any, shapes: Mapping[str, Any]) -> tuple:
    """Returns a query as a tuple of texts; refuses another form.

    `shapes` are name -> () for a string, (n,) for a list of n strings; `number`
    is the query's place, for the ValueError.
    """
    row = (text,) if len(shapes) == 1 else text
    fits = isinstance(row, tuple | list) and len(row) == len(shapes)
    if not fits or not all(map(_is_text, row, shapes.values())):
        forms = [f"{n} ({x[0]} strings)" if x else n for n, x in shapes.items()]
        raise ValueError(
            f"texts[{number}] is {text!r:.60}, expected {' and '.join(forms)}."
        )
    return tuple(map(_whole, row))


def _is_text(value: Any, shape: Sequence[int]) -> bool:
    """Returns whether a value is a string, or a list of shape[0] strings."""
    if not shape:
        return isinstance(value, str)
    is_list = isinstance(value, tuple | list) and len(value) == shape[0]
    return is_list and all(isinstance(x, str) for x in value)


def _whole(value: Any) -> Any:
    """Replaces half characters of a text or of several."""
    if isinstance(value, str):
        return whole_characters(value)
    return [*map(whole_characters, value)]


def named(kind: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Names the outputs of a classifier; see `Model.predict` of bert.py."""
    if kind == "regression":
        return {"score": answer["score"]}
    if kind == "choice":
        return {n: answer[n] for n in ("choice", "score", "probabilities")}
    labels, probabilities = answer["labels"], answer["probabilities"]
    by_label = dict(zip(labels, probabilities, strict=True))
    if kind == "multilabel":
        least = answer.get("thresholds", [THRESHOLD] * len(labels))
        found = zip(labels, probabilities, least, strict=True)
        best = {"labels": [name for name, p, least in found if p > least]}
    else:
        best = {"label": answer["label"], "score": answer["score"]}
    return best | {"probabilities": by_label}


def masked(texts: list[Any], loaded: Any) -> list[Any]:
    """Returns texts that are to be filled in; each must have a [MASK].

    `loaded` is the model, which must see the words after it; None = an export.
    """
    if loaded and loaded.config.left_to_right:
        raise ValueError(
            f"{loaded.report.source} reads left to right: at a [MASK] it does "
            "not see the words after it. Use encode, or load a masked LM."
        )
    for number, text in enumerate(texts):
        if isinstance(text, str) and _MASK not in text:
            raise ValueError(
                f"texts[{number}] is {text!r:.60} without a {_MASK}; write one "
                "for each word that is to be found."
            )
    return texts


def fillings(number: int, text: str, answer: dict) -> list[list[dict]]:
    """Returns token and score of the fillings of each [MASK] of a text.

    Raises ValueError, with the text's `number`, if a [MASK] is after the end
    of the row.
    """
    found, wanted = len(answer["tokens"]), text.count(_MASK)
    if found < wanted:
        raise ValueError(
            f"texts[{number}] is {text!r:.60} with {wanted} {_MASK}, but only "
            f"{found} of them are within the greatest length; shorten it."
        )
    return [
        [{"token": t, "score": p} for t, p in zip(*mask, strict=True)]
        for mask in zip(answer["tokens"], answer["probabilities"], strict=True)
    ]


def asked_by(line: str, kind: str, context: str | None, where: str) -> Any:
    """Reads a line's query; tabs separate several texts.

    Returns what the model of this kind takes: a string; a tuple of two strings;
    or for `choice` a tuple of a string and a list of strings. `context` is the
    text that all questions are about, or None; `where` the place of the line,
    for the ValueError.
    """
    texts = line.split("\t")
    if kind == "span" and context is not None:
        return line, context
    if kind == "span" and len(texts) < 2:
        raise ValueError(
            f"{where} is a question without a text; write both with a tab "
            f"between, or give --context_file: {line!r:.60}."
        )
    if kind == "span":
        return tuple(line.split("\t", 1))
    if kind == "choice":
        return texts[0], texts[1:]
    return tuple(texts) if kind in PAIRS and len(texts) > 1 else line


def to_json(line: str, kind: str, answer: Any) -> str:
    """Writes an answer as one JSON object, without a line's end.

    An answer that is a list is the member `fillings` or `entities`; `kind` is
    the model's.
    """
    if not isinstance(answer, Mapping):
        answer = {"entities" if kind == "tagging" else "fillings": answer}
    return json.dumps({"text": line, **answer}, ensure_ascii=False)


def to_text(line: str, kind: str, answer: Any) -> str:
    """Writes an answer for people, without the last line's end.

    It has the answer and its score before the line, with tabs between; of
    entities and fillings the line, and an indented line for each.
    """
    if kind in _LINES:
        if kind == "multilabel":
            answer = {"labels": ",".join(answer["labels"])}
        if kind == "span":
            answer = answer | {"answer": text_of(answer["answer"])}
        return _LINES[kind].format(line=line, **answer)
    if kind == "tagging":
        form = "{label}\t{score:.4f}\t{text}"
        found = [form.format(**entity) for entity in answer]
    else:
        form = "{token} {score:.0%}"
        found = ["  ".join(form.format(**x) for x in mask) for mask in answer]
    return "\n".join([line, *(f"    {text}" for text in found)])
