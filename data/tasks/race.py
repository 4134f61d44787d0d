"""RACE: exam questions about an English article, with four answers each."""

import os
from collections.abc import Iterator
from typing import Any

from data.storage import files
from data.storage.json_files import read_json
from data.tasks.examples import ChoiceExample
from data.tasks.task import Task, register

_LISTS = ("questions", "options", "answers")
_FIELDS = ("article", *_LISTS, "id")


@register("race")
class Race(Task):
    """RACE. The folders train, dev and test have folders middle and high.

    Each file is the JSON of one article. The input is `[CLS] article [SEP]
    question option [SEP]`; the option replaces a gap (`_`) in the question.
    Only the article is shortened.
    """

    kind = "choice"
    labels = ("A", "B", "C", "D")
    dev_sets = ("dev", "dev_middle", "dev_high")
    test_sets = ("test", "test_middle", "test_high")
    cut = "first"

    def read(self, set_name: str) -> Iterator[ChoiceExample]:
        """Yields the questions of a set."""
        part, _, school = set_name.partition("_")
        for one in (school,) if school else ("middle", "high"):
            folder = os.path.join(self.data_dir, part, one)
            paths = files.find_in(folder, "*.txt")
            if not paths:
                raise FileNotFoundError(
                    f"{folder} has no article (*.txt); expected at least one."
                )
            for path in paths:
                yield from self._questions(path, part == "test")

    def _questions(self, path: str, is_test: bool) -> Iterator[ChoiceExample]:
        """Yields the questions of an article; no answers of a test set."""
        fields = _load(path)
        for number, (question, options, answer) in enumerate(
            zip(*map(fields.get, _LISTS), strict=True)
        ):
            known = is_test or answer in self.labels
            fits = isinstance(options, list) and _are_texts(question, *options)
            if not known or not fits or len(options) != len(self.labels):
                raise ValueError(
                    f"{path}, question {number + 1}: question {question!r}, "
                    f"options {options!r} and answer {answer!r}, expected a "
                    f"text, a list of {len(self.labels)} texts, and one of "
                    f"{', '.join(self.labels)}."
                )
            yield ChoiceExample(
                f"{fields['id']}-{number}",
                [fields["article"]] * len(options),
                [_statement(question, option) for option in options],
                None if is_test else answer,
            )


def _statement(question: str, option: str) -> str:
    """Puts the option into the question's gap, or after the question."""
    if "_" in question:
        return question.replace("_", option, 1)
    return f"{question} {option}"


def _are_texts(*values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def _load(path: str) -> dict[str, Any]:
    remedy = f"expected an object with {', '.join(_FIELDS)}"
    fields = read_json(path, _FIELDS, remedy)
    lists = [fields[name] for name in _LISTS]
    are_lists = all(isinstance(x, list) for x in lists)
    if not are_lists or not _are_texts(fields["article"]):
        raise ValueError(
            f"{path}: expected a text as article, and lists as "
            f"{', '.join(_LISTS)}."
        )
    sizes = list(map(len, lists))
    if len(set(sizes)) > 1:
        raise ValueError(
            f"{path}: {sizes[0]} questions, {sizes[1]} lists of options, "
            f"{sizes[2]} answers; expected as many of each."
        )
    return fields
