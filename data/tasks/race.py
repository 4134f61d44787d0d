"""RACE: exam questions about an English article, with four answers each."""

import glob
import json
import os
from collections.abc import Iterator

from data.storage import files
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
        """Yields the questions of a set, all with their answers."""
        part, _, school = set_name.partition("_")
        for one in (school,) if school else ("middle", "high"):
            folder = os.path.join(self.data_dir, part, one)
            paths = files.find(os.path.join(glob.escape(folder), "*.txt"))
            if not paths:
                raise FileNotFoundError(
                    f"{folder} has no article (*.txt); expected at least one."
                )
            for path in paths:
                yield from self._questions(path)

    def _questions(self, path: str) -> Iterator[ChoiceExample]:
        """Yields the questions of one article."""
        fields = _load(path)
        for number, (question, options, answer) in enumerate(
            zip(
                fields["questions"],
                fields["options"],
                fields["answers"],
                strict=True,
            )
        ):
            where = f"{path}, question {number + 1}"
            if answer not in self.labels:
                raise ValueError(
                    f"{where}: answer {answer!r}, expected one of "
                    f"{', '.join(self.labels)}."
                )
            if len(options) != len(self.labels):
                raise ValueError(
                    f"{where}: {len(options)} options, expected "
                    f"{len(self.labels)}."
                )
            yield ChoiceExample(
                f"{fields['id']}-{number}",
                [fields["article"]] * len(options),
                [_statement(question, option) for option in options],
                answer,
            )


def _statement(question: str, option: str) -> str:
    """Puts the option into the question's gap, or after the question."""
    if "_" in question:
        return question.replace("_", option, 1)
    return f"{question} {option}"


def _load(path: str) -> dict:
    """Reads the fields of one article."""
    text = "\n".join(files.read_lines(path))
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}: not JSON ({error}); expected an object with "
            f"{', '.join(_FIELDS)}."
        ) from None
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        raise ValueError(
            f"{path}: no {', '.join(missing)}; expected an object with "
            f"{', '.join(_FIELDS)}."
        )
    counts = {len(fields[name]) for name in ("questions", "options", "answers")}
    if len(counts) != 1:
        raise ValueError(
            f"{path}: {len(fields['questions'])} questions, "
            f"{len(fields['options'])} lists of options, "
            f"{len(fields['answers'])} answers; expected as many of each."
        )
    return fields
