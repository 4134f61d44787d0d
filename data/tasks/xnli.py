"""XNLI: inference in fifteen languages, in the original's files and columns.

Source: XnliProcessor in run_classifier.py.
"""

import os
from collections.abc import Iterator

from data.tasks import rows
from data.tasks.glue import GlueTask
from data.tasks.rows import Column, Row
from data.tasks.task import register

_LANGUAGE = Column("language", 0)


@register("xnli")
class Xnli(GlueTask):
    """Does the second sentence follow from the first, in one language?

    `data_dir` has `multinli/multinli.train.LANGUAGE.tsv`, `xnli.dev.tsv` and
    `xnli.test.tsv`; the original's language is `zh`.
    """

    # Differs from the original: all languages and the test set, because the
    # original's class has only Chinese and no test set.
    labels = ("contradiction", "entailment", "neutral")

    def __init__(self, data_dir: str, language: str = "zh"):
        super().__init__(data_dir)
        self.language = language

    def columns(self, set_name: str) -> tuple[Column, ...]:
        """Returns the columns of the label and of the texts."""
        if set_name == "train":
            return (Column("label", 2), Column("premise", 0), Column("hypo", 1))
        texts = Column("sentence1", 6), Column("sentence2", 7)
        return (Column("gold_label", 1), *texts)

    def table(self, set_name: str) -> Iterator[Row]:
        """Yields the rows in the language."""
        if set_name == "train":
            name = f"multinli/multinli.train.{self.language}.tsv"
            yield from rows.read_table(os.path.join(self.data_dir, name))
            return
        path = os.path.join(self.data_dir, f"xnli.{set_name}.tsv")
        languages = set()
        for row in rows.read_table(path):
            languages.add(row.text(_LANGUAGE))
            if row.text(_LANGUAGE) == self.language:
                yield row
        if languages and self.language not in languages:
            raise ValueError(
                f"{path}: no row has --language={self.language}; it has "
                f"{', '.join(sorted(languages))}."
            )

    def label_of(self, row: Row, column: Column) -> str:
        """Returns the label; the training files write `contradictory`."""
        if row.value(column) == "contradictory":
            return "contradiction"
        return super().label_of(row, column)
