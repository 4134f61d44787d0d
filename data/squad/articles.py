"""The articles of a SQuAD file or of a tensorflow-datasets data set."""

import dataclasses
import hashlib
import itertools
import json
from typing import Any

from data.storage import files


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

    def read(self) -> SquadArticles:
        """Reads all articles into memory; ValueError if not in SQuAD's form."""
        return self._of_file() if self.path else self._of_tfds()

    def _of_file(self) -> SquadArticles:
        """Parses a whole file; SQuAD 2.0's training set needs 170 MB."""
        path = self.path
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

    def _of_tfds(self) -> SquadArticles:
        """Reads a split; questions in a row on one context are one article."""
        # Imported here because it loads TensorFlow, which a file does not need.
        from data import tfds

        name, number = f"--tfds={self.tfds}, {self.split}", 1
        articles, checksum = [], hashlib.sha256()
        rows = tfds.read_examples(self.tfds, self.split, self.tfds_data_dir)
        for (title, context), group in itertools.groupby(
            rows, lambda row: (row.get("title"), row.get("context"))
        ):
            questions = list(map(_question, group))
            paragraph = {"context": context, "qas": questions}
            content = {"title": title, "paragraphs": [paragraph]}
            articles.append((f"{name}, from question {number}", content))
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
