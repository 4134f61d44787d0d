"""What a model is asked, and its answers: in Python, and as lines of text."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

_MASK = "[MASK]"


def listed(texts: Iterable[Any], least: int = 1) -> list[Any]:
    """Returns texts as a list; refuses a lone text, a table and too few."""
    columns = texts if isinstance(texts, Mapping) else None
    columns = getattr(texts, "columns", columns)  # a DataFrame has them
    if columns is not None:
        names = [*columns] or ["text"]
        name = "text" if "text" in names else names[0]
        raise ValueError(
            f"texts is a {type(texts).__name__} of the columns "
            f"{', '.join(map(str, names)):.60}, expected a list of texts: pass "
            f"a column, such as texts[{name!r}], or for pairs "
            "list(zip(texts[...], texts[...]))."
        )
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise ValueError(
            f"texts is {texts!r:.60}, a {type(texts).__name__}, expected a "
            "list: put a single text into a list."
        )
    texts = list(texts)
    if len(texts) < least:
        raise ValueError("texts is an empty list, expected one text at least.")
    return texts


def named(kind: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Names the outputs of a classifier; see `Model.predict` of bert.py."""
    if kind == "regression":
        return {"score": answer["score"]}
    if kind == "choice":
        return {n: answer[n] for n in ("choice", "score", "probabilities")}
    labels, probabilities = answer["labels"], answer["probabilities"]
    by_label = dict(zip(labels, probabilities, strict=True))
    if kind == "multilabel":
        chosen = [label for label, p in by_label.items() if p > 0.5]
        return {"labels": chosen, "probabilities": by_label}
    best = {name: answer[name] for name in ("label", "score")}
    return best | {"probabilities": by_label}


def masked(texts: list[Any]) -> list[Any]:
    """Returns texts that are to be filled in; each must have a [MASK]."""
    for number, text in enumerate(texts):
        if isinstance(text, str) and _MASK not in text:
            raise ValueError(
                f"texts[{number}] is {text!r:.60} without a {_MASK}."
            )
    return texts


def fillings(
    number: int, text: str, answer: dict[str, Any]
) -> list[list[dict[str, Any]]]:
    """Returns token and score of the fillings of each [MASK] of a text.

    Raises ValueError, with the text's `number`, if a [MASK] is behind the end
    of the row.
    """
    found, wanted = len(answer["tokens"]), text.count(_MASK)
    if found < wanted:
        raise ValueError(
            f"texts[{number}] is {text!r:.60} with {wanted} {_MASK}, but only "
            f"{found} of them are within the greatest length of a text; "
            "shorten it."
        )
    return [
        [
            {"token": token, "score": score}
            for token, score in zip(tokens, scores, strict=True)
        ]
        for tokens, scores in zip(
            answer["tokens"], answer["probabilities"], strict=True
        )
    ]


def asked_by(
    line: str, kind: str, *, context: str | None = None, where: str = "the line"
) -> Any:
    """Reads a line's query; tabs separate several texts.

    Returns what the model of this kind takes: a string; a tuple of two strings;
    or for `choice` a tuple of a string and a list of strings. `context` is the
    text that all questions are about, or None; `where` the place of the line,
    for the ValueError.
    """
    if kind == "pretraining" and _MASK not in line:
        raise ValueError(
            f"{where} has no {_MASK}: {line!r:.60}; write {_MASK} for each "
            "word that is to be found."
        )
    if kind == "span":
        if context is not None:
            return line, context
        question, tab, text = line.partition("\t")
        if not tab:
            raise ValueError(
                f"{where} is a question without a text: {line!r:.60}; write "
                "both with a tab between, or give --context_file."
            )
        return question, text
    texts = line.split("\t")
    if kind == "choice":
        return texts[0], texts[1:]
    is_pair = kind in ("classification", "multilabel", "regression")
    if is_pair and len(texts) > 2:
        raise ValueError(
            f"{where} has {len(texts)} columns, expected a text, or two with a "
            f"tab between: {line!r:.60}."
        )
    return tuple(texts) if is_pair and len(texts) == 2 else line


def to_json(line: str, kind: str, answer: Any) -> str:
    """Writes an answer as one JSON object, without a line's end.

    An answer that is a list is the member `fillings` or `entities`; `kind` is
    the model's.
    """
    if not isinstance(answer, Mapping):
        name = "entities" if kind == "tagging" else "fillings"
        answer = {name: answer}
    return json.dumps({"text": line, **answer}, ensure_ascii=False)


def to_text(line: str, kind: str, answer: Any) -> str:
    """Writes an answer for people, without the last line's end.

    It has the answer and its score before the line, with tabs between; of
    entities and fillings the line, and an indented line for each.
    """
    return _WRITERS[kind](line, answer)


def _label(line: str, answer: Mapping[str, Any]) -> str:
    return f"{answer['label']}\t{answer['score']:.4f}\t{line}"


def _labels(line: str, answer: Mapping[str, Any]) -> str:
    return f"{','.join(answer['labels'])}\t{line}"


def _number(line: str, answer: Mapping[str, Any]) -> str:
    return f"{answer['score']:.4f}\t{line}"


def _choice(line: str, answer: Mapping[str, Any]) -> str:
    return f"{answer['choice']}\t{answer['score']:.4f}\t{line}"


def _answer(line: str, answer: Mapping[str, Any]) -> str:
    return f"{answer['answer']}\t{answer['score']:.4f}\t{line}"


def _entities(line: str, answer: Sequence[Mapping[str, Any]]) -> str:
    found = [f"    {x['label']}\t{x['score']:.4f}\t{x['text']}" for x in answer]
    return "\n".join([line, *found])


def _fillings(line: str, answer: Sequence[Sequence[Mapping]]) -> str:
    found = [
        "    " + "  ".join(f"{x['token']} {x['score']:.0%}" for x in mask)
        for mask in answer
    ]
    return "\n".join([line, *found])


_WRITERS: dict[str, Callable[[str, Any], str]] = {
    "classification": _label,
    "multilabel": _labels,
    "regression": _number,
    "choice": _choice,
    "span": _answer,
    "tagging": _entities,
    "pretraining": _fillings,
}
