"""XNLI: inference in fifteen languages, in the original's files and columns.

Source: XnliProcessor in run_classifier.py.
"""

import os
from collections.abc import Iterator

from data.tasks import rows
from data.tasks.examples import InputExample
from data.tasks.rows import Column
from data.tasks.task import Task, register

_TRAIN = (Column("premise", 0), Column("hypo", 1), Column("label", 2))
_OTHERS = (
    Column("sentence1", 6),
    Column("sentence2", 7),
    Column("gold_label", 1),
)
_LANGUAGE = Column("language", 0)


@register("xnli")
class Xnli(Task):
    """Does the second sentence follow from the first, in one language?

    `data_dir` has `multinli/multinli.train.LANGUAGE.tsv`, `xnli.dev.tsv` and
    `xnli.test.tsv`; the original's language is `zh`.
    """

    # Differs from the original: all languages and the test set, because the
    # original's class has only Chinese and no test set.
    labels = ("contradiction", "entailment", "neutral")

    def __init__(self, data_dir: str, language: str = "zh"):
        super().__init__(data_dir)
        self._language = language

    def read(self, set_name: str) -> Iterator[InputExample]:
        """Yields the examples of a set, all with their labels."""
        is_train = set_name == "train"
        name = f"xnli.{set_name}.tsv"
        if is_train:
            name = f"multinli/multinli.train.{self._language}.tsv"
        path = os.path.join(self.data_dir, name)
        text_a, text_b, label = _TRAIN if is_train else _OTHERS
        found, languages = False, set()
        for row in rows.read_table(path):
            if not is_train:
                languages.add(row.text(_LANGUAGE))
                if row.text(_LANGUAGE) != self._language:
                    continue
            found = True
            yield InputExample(
                f"{set_name}-{row.number}",
                row.text(text_a),
                row.text(text_b),
                self._label(row, label),
            )
        if languages and not found:
            raise ValueError(
                f"{path}: no row has --language={self._language}; it has "
                f"{', '.join(sorted(languages))}."
            )

    def _label(self, row: rows.Row, column: Column) -> str:
        """Returns the label; the training files write `contradictory`."""
        if row.value(column) == "contradictory":
            return "contradiction"
        return row.label(column, self.labels)
