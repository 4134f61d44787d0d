"""A file of LiteRT in Python: wordpiece ids to scores. Loads no TensorFlow.

EXPORT_DIR/1/model_int8.tflite, model.tflite  weights in 8 bits, in float32
             card.json                        what they are, what they compute
             vocab.txt, task.json             how texts become ids

Axes: S wordpieces, L labels.
"""

import hashlib
import os
from collections.abc import Sequence

import numpy as np

from data.storage import files, json_files
from data.text.packing import INPUTS

# A folder stands for the first one.
INT8, FLOAT = "model_int8.tflite", "model.tflite"
CARD = "card.json"
SIGNATURE, SCORES = "serving_default", "scores"
REMEDY = "export the model again with --export_format=litert"


class LiteModel:
    """One file, which is read and checked; it computes on one thread.

    Attributes:
      folder: the version's.
      card: the content of card.json.
    """

    def __init__(self, path: str):
        files.require_file(path, "LiteRT")
        self.folder, name = os.path.split(path)
        card = os.path.join(self.folder, CARD)
        self.card = json_files.read_json(card, ("files",), REMEDY)
        with files.open_read(path) as file:
            content = file.read()
        known = self.card["files"].get(name, {}).get("sha256")
        if hashlib.sha256(content).hexdigest() != known:
            raise ValueError(
                f"{path} is damaged, or not the one in {CARD}; {REMEDY}."
            )
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError as error:
            raise ValueError(
                f"{path} needs the package ai-edge-litert ({error}); pip "
                "install -r requirements-litert.txt."
            ) from None
        interpreter = Interpreter(model_content=content, num_threads=1)
        self._run = interpreter.get_signature_runner(SIGNATURE)

    def scores(self, ids: Sequence[int], segments: Sequence[int]) -> np.ndarray:
        """Computes float32 [L] or [S, L] for a row without padding."""
        rows = np.array([[ids], [[1] * len(ids)], [segments]], np.int32)
        return self._run(**dict(zip(INPUTS, rows, strict=True)))[SCORES][0]


def find(place: str) -> str | None:
    """Finds the file that a place names; None = no export of this kind.

    The place is a file; or one version's folder, or an export_dir, whose newest
    version is taken: there the file of 8 bits.
    """
    if place.endswith(".tflite"):
        return place
    return files.first_of((INT8,), folder_of(place))


def folder_of(place: str) -> str:
    """Returns the newest version in an export_dir; of other places, itself."""
    version = newest_version(place)
    return os.path.join(place, str(version)) if version else place


def newest_version(export_dir: str) -> int:
    """Returns the greatest version in export_dir; 0 = it has none."""
    names = map(os.path.basename, files.find_in(export_dir, "*"))
    return max(map(int, filter(str.isdecimal, names)), default=0)
