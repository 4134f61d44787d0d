"""A label for every word: files of one word a line, as of CoNLL's shared tasks.

`conll`: columns parted by tabs or spaces, an empty line after each sentence,
`-DOCSTART-` before each document (CoNLL-2003). `conllu`: the ten columns of
Universal Dependencies.
"""

import functools
import os
import re
from collections.abc import Iterator, Sequence

from data import metrics
from data.storage import files
from data.tasks import rows
from data.tasks.examples import TaggingExample
from data.tasks.rows import Column, Row
from data.tasks.task import Task, register

_DOCUMENT_START = "-DOCSTART-"
_NO_VALUE = "_"  # CoNLL-U's mark
_TAG = re.compile(r"([BIESUL])-(.+)")
# No other white space: a word may hold, or be, a no-break space.
_SEPARATORS = " \t"
_SPACES = re.compile(" +")
# As released, and as copies call them.
_NAMES = {
    "train": ("train.txt", "eng.train", "train.conll", "train.tsv"),
    "dev": ("valid.txt", "dev.txt", "eng.testa", "dev.conll", "dev.tsv"),
    "test": ("test.txt", "eng.testb", "test.conll", "test.tsv"),
}


@register("conll")
class Conll(Task):
    """Named entities or other labels of words, CoNLL-2003's form.

    Labels in any scheme of chunks (IOB1, BIO, BIOES, BILOU) are read as BIO,
    so that files of different schemes fit each other.

    Args:
      data_dir: folder of the files.
      label_column: name (`ner`, `pos`, `chunk` of four columns; those of
        CoNLL-U) or number, -1 = the last; "" = the last, of CoNLL-U `upos`.
      train_file: name in the folder; "" = the first that is there of
        train.txt, eng.train, train.conll, train.tsv; the others alike.
      dev_file: of the dev set.
      test_file: of the test set; may lack the column.
      labels: in the order of their ids; none = those of the training file,
        sorted.
    """

    kind = "tagging"
    columns: tuple[str, ...] = ("word", "pos", "chunk", "ner")
    names = _NAMES
    word = 0
    usual_label = "-1"

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
        self._given_labels = tuple(labels)

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels given, or else those of the training file, sorted."""
        return self._given_labels or rows.sorted_labels(
            label
            for example in self._read_any("train")
            for label in example.labels
        )

    @functools.cached_property
    def metrics(self) -> tuple[str, ...]:
        """F1 of entities if the labels are such, else accuracy."""
        return metrics.for_tags(self.labels)

    def read(self, set_name: str) -> Iterator[TaggingExample]:
        """Streams the sentences of a set, whose labels must be known."""
        known = set(self.labels)
        for example in self._read_any(set_name):
            for label in set(example.labels or ()) - known:
                raise ValueError(
                    f"{self._path(set_name)}, sentence {example.guid}: label "
                    f"{label!r}, expected "
                    f"{rows.describe_labels(self.labels)}."
                )
            yield example

    def _path(self, set_name: str) -> str:
        """The file of a set."""
        names = [self._files[set_name]] if self._files[set_name] else []
        names = names or self.names[set_name]
        paths = [os.path.join(self.data_dir, name) for name in names]
        for path in paths:
            if files.exists(path):
                return path
        if len(paths) == 1:
            return paths[0]
        raise FileNotFoundError(
            f"{self.data_dir} holds none of {', '.join(names)}; name the file "
            f"with --{set_name}_file."
        )

    def _read_any(self, set_name: str) -> Iterator[TaggingExample]:
        """The sentences of a set, whatever their labels."""
        path = self._path(set_name)
        for number, (document, words) in enumerate(self._sentences(path)):
            yield TaggingExample(
                f"{set_name}-{number}",
                [self._word(row) for row in words],
                self._labels_of(words, set_name),
                document,
            )

    def _word(self, row: Row) -> str:
        return row.cells[self.word]

    def _labels_of(
        self, words: Sequence[Row], set_name: str
    ) -> list[str] | None:
        """The labels of a sentence; None where a test set has none."""
        column, first = self._label_column, words[0]
        if set_name == "test":
            if len(first.cells) == 1 or not first.has(column):
                return None
            if all(row.value(column) == _NO_VALUE for row in words):
                return None
        return to_bio([row.text(column) for row in words])

    def _sentences(self, path: str) -> Iterator[tuple[int, list[Row]]]:
        """Streams (number of the document, rows of the words)."""
        document, words, width = 0, [], None
        for line, text in enumerate(files.read_lines(path), start=1):
            if self._is_comment(text):
                starts = self._starts_document(text)
            elif text.strip(_SEPARATORS):
                starts = text.startswith(_DOCUMENT_START)
                if not starts:
                    row = self._row(path, line, text, width)
                    width = len(row.cells)
                    words += [row] if self._is_word(row) else []
                    continue
            else:
                starts = False
                if words:
                    yield document, words
                words = []
            if starts:
                if words:  # no empty line before the document
                    yield document, words
                words = []
                document += 1
        if words:
            yield document, words

    def _is_comment(self, text: str) -> bool:
        return False

    def _starts_document(self, text: str) -> bool:
        return False

    def _is_word(self, row: Row) -> bool:
        return True

    def _row(self, path: str, line: int, text: str, width: int | None) -> Row:
        """The columns of a line; refuses another number of them."""
        if "\t" in text:
            cells = text.split("\t")
        else:
            cells = _SPACES.split(text.strip(" "))
        names = self.columns if len(cells) == len(self.columns) else ()
        row = Row(path, line, line - 1, names, cells)
        if width not in (None, len(cells)):
            row.fail(f"{len(cells)} columns, expected {width} for every word.")
        if not self._word(row):
            row.fail("no word in the column of words; expected one.")
        return row


@register("conllu")
class Conllu(Conll):
    """Labels of words in CoNLL-U, by default the universal parts of speech.

    Words are lines 1, 2, 3: ranges (1-2, a word written as one) and empty
    nodes (1.1) are left out, as in the shared tasks.
    """

    columns = (
        *("id", "form", "lemma", "upos", "xpos"),
        *("feats", "head", "deprel", "deps", "misc"),
    )
    names = {name: (f"{name}.conllu",) for name in _NAMES}
    word = 1
    usual_label = "upos"

    def _is_comment(self, text: str) -> bool:
        return text.startswith("#")

    def _starts_document(self, text: str) -> bool:
        return text.startswith("# newdoc")

    def _is_word(self, row: Row) -> bool:
        return row.cells[0].isdecimal()

    def _row(self, path: str, line: int, text: str, width: int | None) -> Row:
        return super()._row(path, line, text, len(self.columns))


def to_bio(labels: Sequence[str]) -> list[str]:
    """Turns the labels of a sentence from any scheme of chunks into BIO.

    Args:
      labels: in IOB1 (I- begins a chunk, B- only one right behind another of
        its type), BIO, BIOES or BILOU; others stay as they are.

    Returns:
      As many labels: B- begins a chunk, I- goes on.
    """
    result, before = [], None
    for label in labels:
        tag = _TAG.fullmatch(label)
        if tag:
            begins = tag[1] in "BSU" or tag[2] != before
            label = f"{'B' if begins else 'I'}-{tag[2]}"
        before = tag and tag[2]
        result.append(label)
    return result
