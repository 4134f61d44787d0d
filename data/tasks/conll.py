"""A label for each word: the file formats of the CoNLL shared tasks.

`conll`: one word on each line, columns separated by tabs or spaces, an empty
line after each sentence, `-DOCSTART-` before each document (CoNLL-2003).
`conllu`: the ten columns of Universal Dependencies.
"""

import functools
import itertools
import re
from collections.abc import Iterator, Sequence

from data import metrics
from data.storage import files
from data.tasks import rows
from data.tasks.examples import TaggingExample
from data.tasks.rows import Column, Row
from data.tasks.table_files import find_file
from data.tasks.task import Task, register

_TAG = re.compile(r"([BIESUL])-(.+)")
# CoNLL-U has ranges (1-2) and empty nodes (1.1) beside numbered words.
_NO_WORD = re.compile(r"\d+[-.]\d+")


@register("conll")
class Conll(Task):
    """Named entities or other labels of words in the format of CoNLL-2003.

    Labels of any chunk scheme (IOB1, BIO, BIOES, BILOU) are converted to BIO,
    so that files of different schemes can be combined.

    `label_column` is a name (`ner`, `pos` or `chunk` if there are four columns,
    or a column of CoNLL-U) or number, -1 = the last; "" = the last, in CoNLL-U
    `upos`. A file "" is the first existing one of `names`. A test set may lack
    the label column. `labels` () are those of the training file, sorted.
    """

    kind = "tagging"
    columns: tuple[str, ...] = ("word", "pos", "chunk", "ner")
    # Of the release and of common copies.
    names = {
        "train": ("train.txt", "eng.train", "train.conll", "train.tsv"),
        "dev": ("valid.txt", "dev.txt", "eng.testa", "dev.conll", "dev.tsv"),
        "test": ("test.txt", "eng.testb", "test.conll", "test.tsv"),
    }
    word = 0
    width: int | None = None
    usual_label = "-1"
    document_start = "-DOCSTART-"
    comments: tuple[str, ...] = ()

    def __init__(
        self,
        data_dir: str,
        label_column: str = "",
        train_file: str = "",
        dev_file: str = "",
        test_file: str = "",
        labels: Sequence[str] = (),
    ):
        super().__init__(data_dir)
        self._label_column = Column.parse(label_column or self.usual_label)
        self._files = dict(train=train_file, dev=dev_file, test=test_file)
        self._given_labels = rows.given_labels(labels)

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """The given labels, or the training file's labels, sorted."""
        given = self._given_labels or self.model_labels
        found = (x for one in self._read_any("train") for x in one.labels)
        return given or rows.sorted_labels(found)

    @functools.cached_property
    def metrics(self) -> tuple[str, ...]:
        """Entity F1 if the labels are entities, otherwise accuracy."""
        return metrics.for_tags(self.labels)

    def read(self, set_name: str) -> Iterator[TaggingExample]:
        """Yields the sentences of a set after checking the labels."""
        known = set(self.labels)
        for example in self._read_any(set_name):
            unknown = set(example.labels or ()) - known
            if unknown and set_name == "test":
                example.labels, unknown = None, ()
            for label in unknown:
                raise ValueError(
                    f"{self._path(set_name)}, sentence {example.guid}: label "
                    f"{label!r}, expected {rows.describe_labels(self.labels)}."
                )
            yield example

    def _path(self, set_name: str) -> str:
        given, usual = self._files[set_name], self.names[set_name]
        return find_file(self.data_dir, set_name, given, usual)

    def _read_any(self, set_name: str) -> Iterator[TaggingExample]:
        """Yields the sentences of a set without checking the labels."""
        sentences = self._sentences(self._path(set_name))
        for number, (document, lines) in enumerate(sentences):
            guid = f"{set_name}-{number}"
            words = [row.cells[self.word] for row in lines]
            labels = self._labels_of(lines, set_name)
            yield TaggingExample(guid, words, labels, document)

    def _labels_of(self, words: list[Row], set_name: str) -> list[str] | None:
        """Returns the labels of a sentence; None if a test set has none."""
        column, first = self._label_column, words[0]
        is_test = set_name == "test"
        if is_test and (len(first.cells) == 1 or not first.has(column)):
            return None
        labels = [row.value(column) for row in words]
        if is_test:  # in CoNLL-U, _ means that there is no value
            return None if {*labels} == {"_"} else to_bio(labels)
        if first.place(column) == self.word:
            first.fail(
                f"the label column {column} is that of the words; expected "
                "more columns, with tabs or spaces between."
            )
        rows.check_labels(labels, f"{first.path}, from line {first.line}")
        return to_bio(labels)

    def _sentences(self, path: str) -> Iterator[tuple[int, list[Row]]]:
        """Yields (number of the document, rows of the words)."""
        document, words, width = 0, [], self.width
        lines = itertools.chain(files.read_lines(path), [""])
        for line, text in enumerate(lines, start=1):
            starts = text.startswith(self.document_start)
            # Other white space, such as a no-break space, can be a word's.
            if starts or not text.strip(" \t"):
                if words:
                    yield document, words
                words = []
                document += starts
            elif not text.startswith(self.comments):
                row = self._row(path, line, text, width)
                width = len(row.cells)
                if not self.word or row.cells[0] == str(len(words) + 1):
                    words.append(row)
                elif not _NO_WORD.fullmatch(row.cells[0]):
                    row.fail(
                        f"the id is {row.cells[0]!r}, expected {len(words) + 1}"
                        " (or as 1-2 or 1.1); a blank line ends a sentence."
                    )

    def _row(self, path: str, line: int, text: str, width: int | None) -> Row:
        """Parses a line; raises ValueError if its width is different."""
        cells = text.split("\t")
        if len(cells) == 1:
            cells = list(filter(None, text.split(" ")))
        names = self.columns if len(cells) == len(self.columns) else ()
        row = Row(path, line, line - 1, names, cells)
        if len(cells) != (width or len(cells)):
            row.fail(f"{len(cells)} columns, expected {width} for each word.")
        if not cells[self.word]:
            row.fail("the column of words is empty; expected a word.")
        return row


@register("conllu")
class Conllu(Conll):
    """Labels of words in CoNLL-U; the default is universal parts of speech.

    As in the shared tasks, the words are the lines with ids 1, 2, 3. Ranges
    (1-2) and empty nodes (1.1) are ignored; other ids are refused.
    """

    columns = (
        *("id", "form", "lemma", "upos", "xpos"),
        *("feats", "head", "deprel", "deps", "misc"),
    )
    names = {name: (f"{name}.conllu",) for name in Conll.names}
    word = 1
    width = len(columns)
    usual_label = "upos"
    document_start = "# newdoc"
    comments = ("#",)


def to_bio(labels: Sequence[str]) -> list[str]:
    """Converts a sentence's labels from any chunk scheme to BIO.

    In IOB1, B- only begins a chunk that directly follows one of the same type.
    Labels without a scheme are unchanged.
    """
    result, before = [], None
    for label in labels:
        if tag := _TAG.fullmatch(label):
            begins = tag[1] in "BSU" or tag[2] != before
            label = f"{'B' if begins else 'I'}-{tag[2]}"
        before = tag and tag[2]
        result.append(label)
    return result
