"""Texts to train vectors on: pairs with a score, positive pairs, or texts."""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from data.tasks import get_task, rows
from data.tasks.rows import Column, Row
from data.tasks.table_files import TableFiles, separator_of

TABLES = ("tsv", "csv", "jsonl")
# Task of GLUE -> the label of its positive pairs; None = pairs have scores.
GLUE = {"STS-B": None, "MNLI": "entailment", "QQP": "1"}
SOURCES = (*TABLES, *GLUE)
# The highest score of STS-B.
_HIGHEST = 5.0


class TextExample(NamedTuple):
    """Texts that belong together, and their score; None = it has none."""

    texts: tuple[str, ...]
    score: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextSets:
    """The train and the dev set of one source.

    Attributes:
      task_name: one of `SOURCES`.
      data_dir: folder of the files.
      scored: whether each example has a score.
      limited: whether scores must be cosines, -1 to 1.
      text_columns: columns of a table's texts.
      label_column: column of its score.
      train_file, dev_file: its files; "" = the usual names.
      separator, quoted, drop_missing: see `UserTable`.
    """

    task_name: str
    data_dir: str
    scored: bool
    limited: bool = False
    text_columns: tuple[str, ...] = ("text_a", "text_b")
    label_column: str = "score"
    train_file: str = ""
    dev_file: str = ""
    separator: str = ""
    quoted: bool | None = None
    drop_missing: bool = False
    # Files whose rows without a text were logged: they are read several times.
    _said: set[str] = dataclasses.field(default_factory=set, compare=False)

    def __post_init__(self):
        has_scores = GLUE.get(self.task_name, "") is None
        if self.task_name in GLUE and self.scored != has_scores:
            raise ValueError(
                f"--task_name={self.task_name} has "
                f"{'pairs with scores' if has_scores else 'positive pairs'}; "
                f"give --loss={'cosent' if has_scores else 'negatives'}, or "
                "other data."
            )

    def examples(self, set_name: str) -> Iterator[TextExample]:
        """Yields the examples of `train` or `dev`.

        Raises:
          FileNotFoundError: the file is missing.
          ValueError: a column is missing, a text is empty, a score is no
            number, or the set is empty.
        """
        read = self._table if self.task_name in TABLES else self._glue
        count = 0
        for example in read(set_name):
            count += 1
            yield example
        if not count:
            raise ValueError(
                f"--task_name={self.task_name}: the {set_name} set is empty, "
                "expected at least one example."
            )

    def _glue(self, set_name: str) -> Iterator[TextExample]:
        task = get_task(self.task_name, self.data_dir)
        positive = GLUE[self.task_name]
        for example in task.examples(set_name):
            texts = example.text_a, example.text_b
            if self.scored:
                yield TextExample(texts, example.label / _HIGHEST)
            elif example.label == positive:
                yield TextExample(texts)

    def _table(self, set_name: str) -> Iterator[TextExample]:
        texts = [Column.parse(c, "text_columns") for c in self.text_columns]
        columns = list(texts)
        if self.scored:
            columns.append(Column.parse(self.label_column, "label_column"))
        *first, last = columns
        table = TableFiles(
            data_dir=self.data_dir,
            names={"train": self.train_file, "dev": self.dev_file},
            suffixes=tuple(
                f".{x}" for x in sorted(TABLES, key=self.task_name.__ne__)
            ),
            quoted=self.quoted,
            separator=separator_of(self.separator),
            columns=tuple(first),
            label=last,
        ).read(set_name)
        if self.drop_missing:
            table = rows.without_missing(table, columns, self._said)
        score = columns[-1] if self.scored else None
        return rows.converted(
            table, lambda row: self._example(row, texts, score)
        )

    def _example(
        self, row: Row, texts: list[Column], score: Column | None
    ) -> TextExample:
        found = tuple(map(row.text, texts))
        for column, text in zip(texts, found, strict=True):
            if not text.strip():
                row.fail(
                    f"column {column} is empty, expected a text; remove the "
                    "row, or give --drop_missing."
                )
        if score is None:
            return TextExample(found)
        number = row.float(score)
        if self.limited and abs(number) > 1:
            row.fail(
                f"column {score} is {number:g}, expected -1 to 1, because "
                "--loss=cosine compares it with a cosine; divide all scores "
                "by the greatest."
            )
        return TextExample(found, number)
