"""The nine tasks of GLUE, its diagnostic set and XNLI, in their own files.

The files are tab-separated, and quotes are ordinary characters. A column is
found by its name in the header, or by its number as in the original. So a
user's files need the same order of columns but not the same names.

Source: the processors of run_classifier.py (CoLA, MRPC, MNLI, XNLI).
"""

import os
from collections.abc import Iterator

from data.tasks import rows
from data.tasks.examples import InputExample
from data.tasks.rows import Column, Row
from data.tasks.task import Task, register

_LANGUAGE = Column("language", 0)  # of XNLI


class GlueTask(Task):
    """A table with one or two texts and a label in each row.

    `texts` are their columns, `test_texts` those of the test sets, () = the
    same; `guid` None = the number of the row. The file of a set in `headerless`
    has no header. Rows of another width are skipped in `skip_broken`.
    """

    labels = ("0", "1")
    texts: tuple[Column, ...] = ()
    test_texts: tuple[Column, ...] = ()
    label: Column = Column("label", -1)
    guid: Column | None = None
    headerless: tuple[str, ...] = ()
    skip_broken: tuple[str, ...] = ()

    def table(self, set_name: str) -> Iterator[Row]:
        """Yields the rows of a set's file."""
        return rows.read_table(
            os.path.join(self.data_dir, f"{set_name}.tsv"),
            header=set_name not in self.headerless,
            skip_broken=set_name in self.skip_broken,
        )

    def needed(self, set_name: str) -> tuple[Column, ...]:
        """See `Task.needed`."""
        # Differs from the original: a missing column is not read from the
        # place of another one, because that may be the label.
        columns = self.columns(set_name)
        return columns[1:] if set_name in self.test_sets else columns

    def columns(self, set_name: str) -> tuple[Column, ...]:
        """Returns the columns of the label and of the texts."""
        is_test = set_name in self.test_sets
        return (self.label, *(is_test and self.test_texts or self.texts))

    def example(self, row: Row, set_name: str) -> InputExample:
        """Converts a row; the label of a test set is not read."""
        label, *texts = self.columns(set_name)
        # In the original, guids of every test set begin with "test".
        prefix = "test" if set_name == self.test_sets[0] else set_name
        name = row.value(self.guid) if self.guid else row.number
        example = InputExample(f"{prefix}-{name}", *map(row.text, texts))
        if set_name not in self.test_sets:
            example.label = self.label_of(row, label)
        return example

    def label_of(self, row: Row, column: Column) -> str | float:
        """Returns the label in a column."""
        return row.label(column, self.labels)


@register("cola")
class Cola(GlueTask):
    """CoLA: is the sentence acceptable English?"""

    metrics = ("matthews", "accuracy")
    texts = (Column("sentence", 3),)
    test_texts = (Column("sentence", 1),)
    label = Column("label", 1)
    headerless = ("train", "dev")
    submission_files = {"test": "CoLA.tsv"}


@register("sst-2")
class Sst2(GlueTask):
    """SST-2: is the review of a film positive?"""

    texts = (Column("sentence", 0),)
    test_texts = (Column("sentence", 1),)
    label = Column("label", 1)
    submission_files = {"test": "SST-2.tsv"}


@register("mrpc")
class Mrpc(GlueTask):
    """MRPC: do both sentences have the same meaning?"""

    metrics = ("f1", "accuracy")
    texts = (Column("#1 String", 3), Column("#2 String", 4))
    label = Column("Quality", 0)
    submission_files = {"test": "MRPC.tsv"}


@register("sts-b")
class StsB(GlueTask):
    """STS-B: how similar are both sentences, from 0 to 5?"""

    kind = "regression"
    labels = ()
    metrics = ("pearson", "spearman")
    texts = (Column("sentence1", 7), Column("sentence2", 8))
    label = Column("score", 9)
    submission_files = {"test": "STS-B.tsv"}

    def label_of(self, row, column):
        """Returns a number."""
        return row.float(column)

    def submission(self, set_name, answers):
        """Limits the numbers to 0 to 5; see `Task.submission`."""
        limited = [min(max(value, 0.0), 5.0) for value in answers]
        return super().submission(set_name, limited)


@register("qqp")
class Qqp(GlueTask):
    """QQP: do both questions have the same meaning?"""

    metrics = ("f1", "accuracy")
    texts = (Column("question1", 3), Column("question2", 4))
    test_texts = (Column("question1", 1), Column("question2", 2))
    label = Column("is_duplicate", 5)
    # A few rows of the released file are cut by stray tabs and line breaks.
    skip_broken = ("train",)
    submission_files = {"test": "QQP.tsv"}


class _Inference(GlueTask):
    """Does the second sentence follow from the first?"""

    labels = ("contradiction", "entailment", "neutral")
    texts = (Column("sentence1", 8), Column("sentence2", 9))


@register("mnli")
class Mnli(_Inference):
    """MNLI: inference over many genres; two dev and two test sets."""

    label = Column("gold_label", -1)
    guid = Column("index", 0)
    # Differs from the original: the mismatched sets are scored and predicted
    # too, because GLUE's server requires them.
    dev_sets = ("dev_matched", "dev_mismatched")
    test_sets = ("test_matched", "test_mismatched")
    submission_files = {
        "test_matched": "MNLI-m.tsv",
        "test_mismatched": "MNLI-mm.tsv",
    }


@register("ax")
class Ax(_Inference):
    """GLUE's diagnostic set, for a model of MNLI."""

    metrics = ("matthews", "accuracy")
    texts = (Column("sentence1", 1), Column("sentence2", 2))
    train_sets = dev_sets = ()
    test_sets = ("diagnostic",)
    submission_files = {"diagnostic": "AX.tsv"}


@register("qnli")
class Qnli(GlueTask):
    """QNLI: does the sentence answer the question?"""

    labels = ("entailment", "not_entailment")
    texts = (Column("question", 1), Column("sentence", 2))
    submission_files = {"test": "QNLI.tsv"}


@register("rte")
class Rte(GlueTask):
    """RTE: does the second text follow from the first?"""

    labels = ("entailment", "not_entailment")
    texts = (Column("sentence1", 1), Column("sentence2", 2))
    submission_files = {"test": "RTE.tsv"}


@register("wnli")
class Wnli(GlueTask):
    """WNLI: does the second sentence follow from the first?"""

    texts = (Column("sentence1", 1), Column("sentence2", 2))
    submission_files = {"test": "WNLI.tsv"}


@register("xnli")
class Xnli(_Inference):
    """XNLI: inference in one of fifteen languages.

    `data_dir` has `multinli/multinli.train.LANGUAGE.tsv`, `xnli.dev.tsv` and
    `xnli.test.tsv`; the original's language is `zh`.
    """

    # Differs from the original: all languages and the test set, because the
    # original's class has only Chinese and no test set.
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
