"""The articles of a SQuAD file or of a tensorflow-datasets data set."""

import dataclasses
import hashlib
import itertools
import json
from typing import Any

from data.storage import files


@dataclasses.dataclass(frozen=True)
class SquadData:
    """The source of the questions: a file in SQuAD's form, or a data set.

    `path` "" = a `split` of `tfds`, a data set of tensorflow-datasets with
    SQuAD's features, such as `squad` or `squad/v2.0`.
    """

    path: str = ""
    tfds: str = ""
    tfds_data_dir: str | None = None
    split: str = "train"

    def read(self) -> "SquadArticles":
        """Reads all articles into memory; ValueError if not in SQuAD's form."""
        return _read_file(self.path) if self.path else _read_tfds(self)


@dataclasses.dataclass(frozen=True)
class SquadArticles:
    """The articles of a `SquadData`, and its `name` in messages.

    `articles` are their places for messages, such as `dev.json, article 3`, and
    what JSON says, not yet checked. `sha256` is the checksum of the file, or of
    a data set's articles.
    """

    name: str
    articles: list[tuple[str, Any]]
    sha256: str


def _read_file(path: str) -> SquadArticles:
    """Parses a whole file: SQuAD 2.0's training set needs 170 MB for this."""
    files.require_file(path, "SQuAD")
    with files.open_read(path) as file:
        data = file.read()
    try:
        content = json.loads(data)
    except ValueError as error:
        raise ValueError(
            f"{path}: {error}. Is the file whole, and in UTF-8?"
        ) from None
    articles = content.get("data") if isinstance(content, dict) else None
    if not isinstance(articles, list):
        raise ValueError(
            f"{path} holds {content!r:.60}, expected SQuAD's form: "
            '{"data": [articles]}.'
        )
    found = [(f"{path}, article {i}", x) for i, x in enumerate(articles, 1)]
    return SquadArticles(path, found, hashlib.sha256(data).hexdigest())


def _read_tfds(data: SquadData) -> SquadArticles:
    """Reads a split; consecutive questions on one context are one article."""
    # Imported here because it loads TensorFlow, which a file does not need.
    from data import tfds

    rows = tfds.read_examples(data.tfds, data.split, data.tfds_data_dir)
    articles, checksum = [], hashlib.sha256()
    name, number = f"--tfds={data.tfds}, {data.split}", 1
    for (title, context), group in itertools.groupby(
        rows, lambda row: (row.get("title"), row.get("context"))
    ):
        questions = [_question(row) for row in group]
        paragraph = {"context": context, "qas": questions}
        content = {"title": title, "paragraphs": [paragraph]}
        where = f"{name}, from question {number}"
        articles.append((where, content))
        checksum.update(json.dumps(content).encode())
        number += len(questions)
    return SquadArticles(name, articles, checksum.hexdigest())


def _question(row: dict[str, Any]) -> dict[str, Any]:
    """Converts a question of a data set to the form of SQuAD's file."""
    names = ("id", "question", "is_impossible")
    question = {name: row[name] for name in names if name in row}
    if "answers" in row:
        texts, starts = row["answers"]["text"], row["answers"]["answer_start"]
        answers = zip(texts, starts, strict=True)
        question["answers"] = [
            {"text": text, "answer_start": start} for text, start in answers
        ]
    return question
