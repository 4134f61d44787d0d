"""SWAG, CODAH and RACE: the best of four texts."""

import os
from collections.abc import Iterator
from typing import Any

from data.storage import files
from data.storage.json_files import read_json
from data.tasks import rows
from data.tasks.examples import ChoiceExample
from data.tasks.rows import Column, Row
from data.tasks.task import Task, register

# Of a file of RACE.
_LISTS = ("questions", "options", "answers")
_FIELDS = ("article", *_LISTS, "id")


class _Endings(Task):
    """A text, its four endings and the number of the right one in each row.

    `begin` is a column with the beginning of all endings; None = there is none.
    """

    kind = "choice"
    labels = ("0", "1", "2", "3")
    text: Column
    begin: Column | None = None
    endings: tuple[Column, ...]
    label: Column

    def needed(self, set_name: str) -> list[Column]:
        """See `Task.needed`."""
        columns = [self.text, *self.endings, *filter(None, [self.begin])]
        return columns + [self.label] * (set_name != "test")

    def example(self, row: Row, set_name: str) -> ChoiceExample:
        """Converts a row; the label of a test set is not read."""
        begin = f"{row.text(self.begin)} " if self.begin else ""
        return ChoiceExample(
            f"{set_name}-{row.number}",
            [row.text(self.text)] * len(self.endings),
            [begin + row.text(column) for column in self.endings],
            row.label(self.label, self.labels) if set_name != "test" else None,
        )


@register("swag")
class Swag(_Endings):
    """What happens next in a film: train.csv, val.csv, test.csv.

    The input is `[CLS] sent1 [SEP] sent2 ending [SEP]`.

    Source: section 4.4 of the paper.
    """

    text = Column("sent1", 4)
    begin = Column("sent2", 5)
    endings = tuple(Column(f"ending{i}", 7 + i) for i in range(4))
    label = Column("label")

    def table(self, set_name: str) -> Iterator[Row]:
        """Yields the rows of a set's file."""
        name = "val.csv" if set_name == "dev" else f"{set_name}.csv"
        path = os.path.join(self.data_dir, name)
        return rows.read_table(path, delimiter=",", quotechar='"')


@register("codah")
class Codah(_Endings):
    """CODAH: one file, codah_full_data.tsv or full_data.tsv.

    Rows whose number (from 0) ends in 8 are the dev set, those whose number
    ends in 9 the test set and the others the train set, because consecutive
    rows of one author are similar.
    """

    text = Column(None, 1)
    endings = tuple(Column(None, 2 + i) for i in range(4))
    label = Column(None, 6)

    def table(self, set_name: str) -> Iterator[Row]:
        """Yields the rows of a set."""
        names = ("codah_full_data.tsv", "full_data.tsv")
        path = files.first_of(names, self.data_dir)
        path = path or os.path.join(self.data_dir, names[0])
        remainders = {"dev": (8,), "test": (9,)}.get(set_name, range(8))
        for row in rows.read_table(path, header=False):
            if row.number % 10 in remainders:
                yield row


@register("race")
class Race(Task):
    """RACE: exam questions about an English article.

    The folders train, dev and test have folders middle and high. Each file is
    the JSON of one article. The input is `[CLS] article [SEP] question option
    [SEP]`; the option replaces a gap (`_`) in the question. Only the article is
    shortened.
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
        fields = read_json(path, _FIELDS, f"expected {', '.join(_FIELDS)}")
        lists = [fields[name] for name in _LISTS]
        sizes = [len(x) if isinstance(x, list) else None for x in lists]
        is_whole = len(set(sizes)) == 1 and None not in sizes
        if not is_whole or not _are_texts(fields["article"]):
            raise ValueError(
                f"{path}: {', '.join(_LISTS)} have the lengths {sizes}; "
                "expected a text as article, and lists of one length."
            )
        asked = zip(*lists, strict=True)
        for number, (question, options, answer) in enumerate(asked):
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
