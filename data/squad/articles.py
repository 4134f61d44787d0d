"""The articles of a SQuAD file or of a tensorflow-datasets data set."""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from data.storage import files


class Article(NamedTuple):
    """One article, as parsed from JSON.

    Attributes:
      where: its place for error messages, such as `dev.json, article 3`.
      content: expected to hold `title` and `paragraphs`; not yet checked.
    """

    where: str
    content: Any


@dataclasses.dataclass(frozen=True)
class SquadData:
    """The source of the questions: a file or a data set.

    Args:
      path: a JSON file in SQuAD's form; "" = read `tfds` instead.
      tfds: name of a data set of tensorflow-datasets with SQuAD's features,
        such as `squad` or `squad/v2.0`.
      tfds_data_dir: folder of the data sets; None = the default of
        tensorflow-datasets.
      split: split of the data set.
    """

    path: str = ""
    tfds: str = ""
    tfds_data_dir: str | None = None
    split: str = "train"

    @property
    def name(self) -> str:
        """The name of the source in messages."""
        return self.path or f"--tfds={self.tfds}, {self.split}"

    def articles(self) -> Iterator[Article]:
        """Yields the articles in their order.

        Raises:
          FileNotFoundError: there is no such file.
          ValueError: the file is not JSON, not in SQuAD's form, or truncated.
        """
        if self.path:
            return _file_articles(self.path)
        return _tfds_articles(self)

    def checksum(self) -> str:
        """SHA-256 of the file, or of the articles of a data set."""
        if self.path:
            files.require_file(self.path, "SQuAD")
            return files.sha256(self.path)
        checksum = hashlib.sha256()
        for article in self.articles():
            checksum.update(json.dumps(article.content).encode())
        return checksum.hexdigest()


def _file_articles(path: str) -> Iterator[Article]:
    """Yields the members of `data`."""
    content = _load(path)
    form = 'expected SQuAD\'s {"data": [articles]}'
    if not isinstance(content, dict):
        raise ValueError(
            f"{path} holds a {type(content).__name__}, {form}. Is it in "
            "SQuAD's form?"
        )
    if "data" not in content:
        raise ValueError(
            f"{path} is not in SQuAD's form: there is no data, only "
            f"{', '.join(content) or 'nothing'}."
        )
    if not isinstance(content["data"], list):
        raise ValueError(
            f"{path}: data is no list, {form}. Is it in SQuAD's form?"
        )
    for number, article in enumerate(content["data"], start=1):
        yield Article(f"{path}, article {number}", article)


def _load(path: str) -> Any:
    """Parses a whole file: SQuAD 2.0's training set needs 170 MB for this."""
    files.require_file(path, "SQuAD")
    with files.open_read(path) as file:
        data = file.read()
    try:
        text = data.decode("utf-8-sig")  # ignores a byte-order mark
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, byte {error.start + 1}: 0x{data[error.start]:02x} is not "
            "UTF-8; convert the file, for example with `iconv -f latin1 -t "
            "utf-8`."
        ) from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        ends = "the file ends, " if error.pos >= len(text) else ""
        raise ValueError(
            f"{path}, character {error.pos + 1}: {ends}{error.msg}. Is the "
            "file whole, and in SQuAD's form?"
        ) from None


def _tfds_articles(data: SquadData) -> Iterator[Article]:
    """Yields a split in SQuAD's form.

    Consecutive questions on one context become one article.
    """
    # Imported here because it loads TensorFlow, which a file does not need.
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
    """Converts a question of a data set to the form of SQuAD's file."""
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
