"""RACE: exam questions about an English article, with four answers each."""

import os
from collections.abc import Iterator
from typing import Any

from data.storage import files
from data.storage.json_files import read_json
from data.tasks.examples import ChoiceExample
from data.tasks.task import Task, register

_FIELDS = ("article", "questions", "options", "answers", "id")


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
        columns = [fields[name] for name in ("questions", "options", "answers")]
        for number, (question, options, answer) in enumerate(
            zip(*columns, strict=True)
        ):
            known = is_test or answer in self.labels
            if not known or len(options) != len(self.labels):
                raise ValueError(
                    f"{path}, question {number + 1}: answer {answer!r} and "
                    f"{len(options)} options, expected one of "
                    f"{', '.join(self.labels)} and {len(self.labels)} options."
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


def _load(path: str) -> dict[str, Any]:
    remedy = f"expected an object with {', '.join(_FIELDS)}"
    fields = read_json(path, _FIELDS, remedy)
    sizes = [len(fields[name]) for name in ("questions", "options", "answers")]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"{path}: {sizes[0]} questions, {sizes[1]} lists of options, "
            f"{sizes[2]} answers; expected as many of each."
        )
    return fields
