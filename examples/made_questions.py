"""Makes texts with questions and answers, for questions.ipynb.

A text describes a function by five of six facts, in varying words and order.
The answer to a question is a piece of the text.
"""

import json
import random
from collections.abc import Iterable
from typing import Any

_THINGS = "file list name object string value table message key line".split()
_STATES = "empty missing invalid closed unknown".split()
_NUMBERS = "two three four five six".split()
_ERRORS = "KeyError ValueError TypeError OSError".split()

# Fact -> how it may be asked, and how a text may state it.
_FACTS = {
    "result": (
        ("What does it return?", "What is the result?"),
        ("It returns {}.", "The result is {}.", "The return value is {}."),
    ),
    "error": (
        ("Which error does it raise?", "Which exception is raised?"),
        ("It can raise {}.", "The exception {} is raised then."),
    ),
    "condition": (
        ("When does it fail?", "When is an exception raised?"),
        ("It fails if {}.", "If {}, it fails.", "This is an error when {}."),
    ),
    "place": (
        ("Where is it defined?", "Where can it be found?"),
        ("It is defined in {}.", "It belongs to {}.", "It is part of {}."),
    ),
    "arguments": (
        ("How many arguments does it take?", "How many arguments are there?"),
        ("It takes {} arguments.", "There are {} arguments."),
    ),
    "version": (
        ("When was it added?", "In which version was it added?"),
        ("It was added in {}.", "It is new in {}."),
    ),
}


def paragraph(number: int) -> dict[str, Any]:
    """Makes a text with its questions, as in a file of SQuAD.

    Args:
      number: of the text; equal numbers give equal texts.

    Returns:
      `context`, the text, and `qas`, its questions: `id`, which ends in the
      name of the fact, `question` and `answers`.
    """
    draw = random.Random(number)
    text, questions = "", []
    for fact in draw.sample(list(_FACTS), len(_FACTS) - 1):
        asked, stated = map(draw.choice, _FACTS[fact])
        before, after = stated.split("{}")
        answer = {
            "answer_start": len(text + before),
            "text": _value(fact, draw),
        }
        text += f"{before}{answer['text']}{after} "
        questions.append(
            {"id": f"{number}-{fact}", "question": asked, "answers": [answer]}
        )
    return {"context": text.strip(), "qas": questions}


def _value(fact: str, draw: random.Random) -> str:
    """Draws what a text says of a fact."""
    one, other = draw.sample(_THINGS, 2)
    return {
        "result": f"{draw.choice(['a', 'the', 'each'])} {one} of the {other}",
        "error": draw.choice(_ERRORS),
        "condition": f"the {one} is {draw.choice(_STATES)}",
        "place": f"the module {one}",
        "arguments": draw.choice(_NUMBERS),
        "version": f"version 3.{draw.randrange(14)}",
    }[fact]


def write(path: str, numbers: Iterable[int]) -> None:
    """Writes texts with their questions to a file in SQuAD's format."""
    article = {"title": "functions", "paragraphs": [*map(paragraph, numbers)]}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"version": "1.1", "data": [article]}, file)
