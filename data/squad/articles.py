"""SQuAD's JSON, article by article, from a file or from tensorflow-datasets."""

import codecs
import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator
from typing import IO, Any, NamedTuple, NoReturn

from data.storage import files

# Read at once; an article of SQuAD has about 60 kB.
_CHUNK_BYTES = 1 << 20
# What stands so near to the end of the text read so far may be wrong only
# because it is cut there, as in `tru` or `\u00`.
_NEAR_END = 16


class Article(NamedTuple):
    """One article as it stands in the file.

    Attributes:
      where: names it in errors: `dev.json, article 3`.
      content: `title` and `paragraphs`; nothing is checked yet.
    """

    where: str
    content: Any


@dataclasses.dataclass(frozen=True)
class SquadData:
    """Where questions come from: a file, or a data set.

    Args:
      path: a JSON file in SQuAD's form; "" = `tfds` says it.
      tfds: name of a data set of tensorflow-datasets with SQuAD's features,
        such as `squad` or `squad/v2.0`.
      tfds_data_dir: where data sets are; None = the default of
        tensorflow-datasets.
      split: of the data set.
    """

    path: str = ""
    tfds: str = ""
    tfds_data_dir: str | None = None
    split: str = "train"

    @property
    def name(self) -> str:
        """Names it in messages."""
        return self.path or f"--tfds={self.tfds}, {self.split}"

    def articles(self) -> Iterator[Article]:
        """Streams the articles.

        Raises:
          FileNotFoundError: there is no such file.
          ValueError: it is not JSON, not in SQuAD's form, or cut short.
        """
        if self.path:
            return _file_articles(self.path)
        return _tfds_articles(self)

    def checksum(self) -> str:
        """A checksum of all that the articles say, in hexadecimal."""
        if self.path:
            files.require_file(self.path, "SQuAD")
            return files.sha256(self.path)
        checksum = hashlib.sha256()
        for article in self.articles():
            checksum.update(json.dumps(article.content).encode())
        return checksum.hexdigest()


def _file_articles(path: str) -> Iterator[Article]:
    """Streams the members of `data`; all else at the top is passed over."""
    files.require_file(path, "SQuAD")
    with files.open_read(path) as file:
        reader = _JsonReader(path, file)
        form = 'expected SQuAD\'s {"data": [articles]}'
        if reader.peek() != "{":
            reader.fail(form)
        names = []
        for _ in reader.members("{}"):
            names.append(reader.name())
            if names[-1] != "data":
                reader.value()
                continue
            if reader.peek() != "[":
                reader.fail(f"data is no list, {form}")
            for number in reader.members("[]"):
                yield Article(f"{path}, article {number}", reader.value())
        if reader.peek():
            reader.fail("nothing may follow the last }")
        if "data" not in names:
            raise ValueError(
                f"{path} is not in SQuAD's form: there is no data, only "
                f"{', '.join(names) or 'nothing'}."
            )


class _JsonReader:
    """Reads a JSON file piece by piece.

    A value (an article) is read whole by the decoder of Python, in C; what
    is around it (braces, commas, names) by `members` and `name`.
    """

    def __init__(self, path: str, file: IO[bytes]):
        self._path = path
        self._file = file
        # Without a byte-order mark, if there is one.
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._raw_decode = json.JSONDecoder().raw_decode
        self._text, self._at = "", 0
        self._num_passed = 0  # characters before the text
        self._ended = False

    def members(self, brackets: str) -> Iterator[int]:
        """Counts from 1 the members between brackets; stands before each."""
        opening, closing = brackets
        self._take(opening)
        if self.peek() == closing:
            self._take(closing)
            return
        for number in itertools.count(1):
            yield number
            if self.peek() == closing:
                self._take(closing)
                return
            self._take(",")

    def name(self) -> str:
        """Reads the name of an object's member and its colon."""
        if self.peek() != '"':
            self.fail('expected "')
        name = self.value()
        self._take(":")
        return name

    def value(self) -> Any:
        """Reads the next value."""
        self.peek()
        while True:
            try:
                value, end = self._raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._ended or not self._may_be_cut(error):
                    self._at = error.pos
                    self.fail(error.msg)
            else:
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
            # Twice as much every time: what is read anew stays little.
            self._read(max(_CHUNK_BYTES, len(self._text) - self._at))

    def peek(self) -> str:
        """Passes white space; returns the next character, "" at the end."""
        while True:
            while self._text[self._at : self._at + 1] in (
                " ",
                "\t",
                "\n",
                "\r",
            ):
                self._at += 1
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._read(_CHUNK_BYTES)

    def fail(self, expected: str) -> NoReturn:
        """Refuses what stands here."""
        place = self._num_passed + self._at + 1
        if self._ended and self._at >= len(self._text):
            expected = f"the file ends, {expected}"
        raise ValueError(
            f"{self._path}, character {place}: {expected}. Is the file whole, "
            "and in SQuAD's form?"
        )

    def _take(self, character: str) -> None:
        if self.peek() != character:
            self.fail(f"expected {character}")
        self._at += 1

    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        """Whether more text could mend a value."""
        # A string that does not end is reported where it begins.
        return (
            error.msg.startswith("Unterminated string")
            or error.pos > len(self._text) - _NEAR_END
        )

    def _read(self, num_bytes: int) -> None:
        """Reads more, and forgets the text before this place."""
        data = self._file.read(num_bytes)
        try:
            more = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self._path}: 0x{error.object[error.start]:02x} after "
                f"character {self._num_passed + len(self._text)} is not UTF-8; "
                "convert the file, for example with `iconv -f latin1 -t utf-8`."
            ) from None
        self._num_passed += self._at
        self._text = self._text[self._at :] + more
        self._at, self._ended = 0, not data


def _tfds_articles(data: SquadData) -> Iterator[Article]:
    """Streams a split in SQuAD's form.

    Questions on one context that follow each other are an article.
    """
    # Takes TensorFlow, which files do without.
    from data import tfds as tfds_reading

    builder = tfds_reading.find_and_prepare(data.tfds, data.tfds_data_dir)
    rows = tfds_reading.read_examples(data.tfds, builder, data.split)
    number = 1
    for key, questions in itertools.groupby(
        rows, lambda row: (row.get("title"), row.get("context"))
    ):
        title, context = key
        questions = [_question(row) for row in questions]
        where = f"{data.name}, from question {number}"
        number += len(questions)
        paragraph = {"context": context, "qas": questions}
        yield Article(where, {"title": title, "paragraphs": [paragraph]})


def _question(row: dict[str, Any]) -> dict[str, Any]:
    """A question of a data set in the form of SQuAD's file."""
    question = {
        name: row[name]
        for name in ("id", "question", "is_impossible")
        if name in row
    }
    if "answers" in row:
        columns = row["answers"]
        question["answers"] = [
            {"text": text, "answer_start": start}
            for text, start in zip(
                columns["text"], columns["answer_start"], strict=True
            )
        ]
    return question
