"""An index of texts: a .npy file of vectors, and what it was made from.

Axes: N vectors, Q questions, W numbers of a vector, k found vectors.
"""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from data.storage import files, manifests
from data.storage.json_files import read_json, require_names, write_json
from data.vectors.retrieval import unit
from data.vectors.text_rows import read_texts
from data.vectors.vector_files import open_array

# A found text: `score` (the cosine), `row` (from 0) and `text`.
Found = dict[str, Any]

# Scores computed at once: 64 MB.
_SCORES = 1 << 24
_ROWS = 1 << 16
_SAMPLE = 256  # rows
_AGAIN = "make it again with --do_encode"


@dataclasses.dataclass
class Index:
    """Vectors of N texts; `open_index` makes it.

    `vectors` are float32 [N, W], read from the file when they are needed;
    `is_unit` says that they have the length 1.
    """

    vectors: np.ndarray
    texts: Sequence[str]
    is_unit: bool

    @functools.cached_property
    def _is_empty(self) -> np.ndarray:
        return np.array([not text.strip() for text in self.texts], bool)

    def search(self, questions: np.ndarray, k: int) -> Iterator[list[Found]]:
        """Yields the k texts of the highest cosine for each question.

        Questions are float32 [Q, W]; empty texts are not found. The highest
        score is first, of equal ones the first row.
        """
        questions, at_once = unit(questions), max(1, _SCORES // _ROWS)
        for start in range(0, len(questions), at_once):
            part = questions[start : start + at_once]
            nothing = np.zeros(0, np.float32), np.zeros(0, np.int64)
            best = [nothing] * len(part)
            for first in range(0, len(self.vectors), _ROWS):
                rows = slice(first, first + _ROWS)
                block = np.asarray(self.vectors[rows])
                scores = part @ (block if self.is_unit else unit(block)).T
                scores[:, self._is_empty[rows]] = -np.inf
                best = [
                    _better(*found, row, first, k)
                    for found, row in zip(best, scores, strict=True)
                ]
            for scores, places in best:
                found = zip(scores.tolist(), places.tolist(), strict=True)
                yield [
                    {"score": score, "row": row, "text": self.texts[row]}
                    for score, row in found
                ]


def _better(
    scores: np.ndarray, places: np.ndarray, row: np.ndarray, first: int, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Adds a block's scores to the best ones; keeps k."""
    least = scores[-1] if len(scores) == k else -np.inf
    new = np.flatnonzero(row > least)
    if len(new) > k:
        # What is equal to the k-th best is kept: the first place counts.
        new = new[row[new] >= np.partition(row[new], -k)[-k]]
    scores = np.concatenate([scores, row[new]])
    places = np.concatenate([places, new + first])
    order = np.lexsort((places, -scores))[:k]
    return scores[order], places[order]


def write_facts(
    path: str, model: Mapping[str, Any], texts: Mapping[str, str], **facts: Any
) -> None:
    """Writes what an index was made from, beside its file.

    `texts` are what `texts_of` returned before they were read. Raises
    ValueError if they have changed since.
    """
    if texts != texts_of(texts["file"], texts["column"]):
        raise ValueError(
            f"{texts['file']} changed while read; give one that stays as it is."
        )
    facts |= {"made_from": dict(model), "texts": texts}
    facts["sample_sha256"] = _sample_of(open_array(path, path))
    write_json(manifests.path_of([path]), facts)


def texts_of(file: str, column: str) -> dict[str, str]:
    """Returns where an index has its texts from, and their checksum."""
    place = files.absolute(file)
    return {"file": place, "column": column, "sha256": files.sha256(file)}


def _sample_of(vectors: np.ndarray) -> str:
    """A checksum of some of the vectors; all of them may take seconds."""
    some = np.ascontiguousarray(vectors[:: 1 + len(vectors) // _SAMPLE])
    return hashlib.sha256(some.tobytes()).hexdigest()


def files_of(path: str) -> list[str]:
    """Returns the files that an index needs beside its vectors."""
    facts = _read_facts(path)
    return [manifests.path_of([path]), *_places_of_texts(path, facts)]


def _read_facts(path: str) -> dict[str, Any]:
    manifest = manifests.path_of([path])
    if not files.exists(manifest):
        raise FileNotFoundError(
            f"There is no {manifest}, which says what {path} was made of; "
            f"{_AGAIN}."
        )
    names = ("made_from", "texts", "count", "is_unit", "sample_sha256")
    facts = read_json(manifest, names, _AGAIN)
    names = ("file", "column", "sha256")
    require_names(facts["texts"], f"{manifest}: texts", names, _AGAIN)
    return facts


def _places_of_texts(path: str, facts: Mapping[str, Any]) -> list[str]:
    """Where an index's texts may be: they can be moved together."""
    file = facts["texts"]["file"]
    beside = os.path.join(os.path.dirname(path), os.path.basename(file))
    found = list(filter(files.exists, (file, beside)))
    if not found:
        raise FileNotFoundError(
            f"{file}, whose texts {path} has, is gone; put it back, or beside "
            f"the index, or {_AGAIN}."
        )
    return found


def open_index(path: str, model: Mapping[str, Any]) -> Index:
    """Opens an index; refuses one of another model, or of other texts."""
    files.require_file(path, "index")
    facts = _read_facts(path)
    if changed := manifests.changes(facts["made_from"], model):
        raise ValueError(
            f"--index_file={path} was made with another model or flag: "
            f"{'; '.join(changed)}. Give the same, or {_AGAIN}."
        )
    vectors = open_array(path, f"{path} is damaged; {_AGAIN}")
    texts, places = facts["texts"], _places_of_texts(path, facts)
    same = (x for x in places if files.sha256(x) == texts["sha256"])
    file, count = next(same, None), facts["count"]
    sample = facts["sample_sha256"]
    if not file or (count, sample) != (len(vectors), _sample_of(vectors)):
        raise ValueError(f"{path} or {places[0]} was changed since; {_AGAIN}.")
    found = list(read_texts(file, texts["column"]))
    return Index(vectors, found, facts["is_unit"])
