"""An index of texts: a .npy file of vectors, and what it was made from.

Axes: N vectors, Q questions, W numbers of a vector, k found vectors.
"""

import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

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

    def __post_init__(self):
        self._is_empty = np.array([not x.strip() for x in self.texts], bool)

    def search(self, questions: np.ndarray, k: int) -> Iterator[list[Found]]:
        """Yields the k texts of the highest cosine for each question.

        Questions are float32 [Q, W]; empty texts are not found. The highest
        score is first, of equal ones the first row.
        """
        questions, at_once = unit(questions), _SCORES // _ROWS
        for start in range(0, len(questions), at_once):
            part = questions[start : start + at_once]
            firsts = range(0, len(self.vectors), _ROWS)
            blocks = [self._nearest(part, first, k) for first in firsts]
            scores, rows = map(np.hstack, zip(*blocks, strict=True))
            for values, places in zip(scores, rows, strict=True):
                best = np.argsort(-values, kind="stable")[:k]
                found = values[best].tolist(), places[best].tolist()
                yield [
                    {"score": score, "row": row, "text": self.texts[row]}
                    for score, row in zip(*found, strict=True)
                    if score > -np.inf
                ]

    def _nearest(self, questions: np.ndarray, first: int, k: int) -> tuple:
        """Finds the highest scores in the block from row `first` on.

        Returns scores, float32 [Q, k], and rows, int32; a small block has less.
        """
        block = slice(first, first + _ROWS)
        vectors = np.asarray(self.vectors[block])
        scores = questions @ (vectors if self.is_unit else unit(vectors)).T
        scores[:, self._is_empty[block]] = -np.inf
        best, places = tf.math.top_k(scores, min(k, len(vectors)))
        return best.numpy(), first + places.numpy()


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
    """Returns the files of an index."""
    return [path, manifests.path_of([path]), *_read_facts(path)[1]]


def _read_facts(path: str) -> tuple[dict[str, Any], list[str]]:
    """What an index was made from, and where its texts may be."""
    files.require_file(path, "--index_file")
    manifest = manifests.path_of([path])
    if not files.exists(manifest):
        raise FileNotFoundError(
            f"There is no {manifest}, which says what {path} was made of; "
            f"{_AGAIN}."
        )
    names = ("made_from", "texts", "count", "is_unit", "sample_sha256")
    facts = read_json(manifest, names, _AGAIN)
    names = ("file", "column", "sha256")
    texts = require_names(facts["texts"], f"{manifest}: texts", names, _AGAIN)
    values = facts["made_from"], facts["is_unit"], *map(texts.get, names)
    if [*map(type, values)] != [dict, bool, str, str, str]:
        raise ValueError(f"{manifest} is damaged: {values}; {_AGAIN}.")
    # Both can be moved together.
    file = texts["file"]
    beside = os.path.join(os.path.dirname(path), os.path.basename(file))
    places = list(filter(files.exists, (file, beside)))
    if not places:
        raise FileNotFoundError(
            f"{file}, whose texts {path} has, is gone; put it back, or beside "
            f"the index, or {_AGAIN}."
        )
    return facts, places


def open_index(path: str, model: Mapping[str, Any]) -> Index:
    """Opens an index; refuses one of another model, or of other texts."""
    facts, places = _read_facts(path)
    if changed := manifests.changes(facts["made_from"], model):
        raise ValueError(
            f"--index_file={path} was made with another model or flag: "
            f"{'; '.join(changed)}. Give the same, or {_AGAIN}."
        )
    vectors = open_array(path, f"{path} is damaged; {_AGAIN}")
    texts, made = facts["texts"], (facts["count"], facts["sample_sha256"])
    same = (x for x in places if files.sha256(x) == texts["sha256"])
    file = next(same, None)
    if not file or made != (len(vectors), _sample_of(vectors)):
        raise ValueError(f"{path} or {places[0]} was changed since; {_AGAIN}.")
    found = list(read_texts(file, texts["column"]))
    return Index(vectors, found, facts["is_unit"])
