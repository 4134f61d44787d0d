"""Predictions of a trained model: `Predictor.load(dir).predict(texts)`."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401, operations of the exported graphs

from data.progress import Progress
from data.storage.json_files import find_json
from modeling.checkpoints.model_folder import DESCRIPTION
from training.export import litert_model, saved_model
from training.export.asking import checked_row, listed
from training.inference import in_order

# Inputs of serve_text; `predict` takes those of a model in this order.
_INPUTS = ("text", "text_a", "text_b", "question", "context", "choices")


class Predictor:
    """Predicts with a model that is loaded once.

    Example:
      predictor = Predictor.load("/tmp/mrpc")
      predictor.predict([("He left.", "He went away.")])
      # [{"label": "1", "score": 0.97, "probabilities": [0.03, 0.97], ...}]

    Args:
      signatures: name -> function, from an export or a `Serving`.
      kind: what the model does, see `Description.kind`; "" = it is unknown.
    """

    def __init__(self, signatures: Mapping[str, Any], kind: str = ""):
        self.kind = kind
        self._function = function = signatures["serve_text"]
        if hasattr(function, "get_concrete_function"):
            function = function.get_concrete_function()
        specs = tf.nest.flatten(function.structured_input_signature)
        shapes = {spec.name: spec.shape.as_list()[1:] for spec in specs}
        self._shapes = {n: shapes[n] for n in _INPUTS if n in shapes}

    @classmethod
    def load(cls, folder: str) -> Self:
        """Loads a model.

        `folder` is an export_dir (its newest version is taken), one version of
        it, or the output_dir of a finished run. Raises ValueError if it is none
        of these, or an export without a signature that takes texts.
        """
        version = find_version(folder)
        if litert_model.find(os.fspath(folder)):
            raise ValueError(f"{folder} is of LiteRT; load it by bert.load.")
        if not version:
            serving = saved_model.load(folder)
            return cls(serving.signatures, serving.description.kind)
        loaded = tf.saved_model.load(version)
        if "serve_text" not in loaded.signatures:
            raise ValueError(
                f"{version} has no signature of texts, only "
                f"{', '.join(loaded.signatures)}. Load the output_dir of the "
                "run, or export it with text in --export_signatures."
            )
        facts = find_json(os.path.join(version, "assets", DESCRIPTION))
        predictor = cls(loaded.signatures, facts.get("kind", ""))
        # The signatures do not keep the variables alive; this object does.
        predictor._loaded = loaded
        return predictor

    def predict(self, texts: Sequence[Any], batch_size: int = 32) -> list[dict]:
        """Predicts each text's outputs of `serve_text`.

        `texts` are strings; for pairs tuples of two strings, for choice tuples
        of a string and a list of strings. `batch_size` of similar length are
        computed at once. Raises ValueError if `texts` is not a list, or a text
        does not have the model's form.
        """
        if not isinstance(batch_size, int | np.integer) or batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected 1, 2, ...")
        texts = enumerate(listed(texts, least=0))
        rows = [checked_row(i, text, self._shapes) for i, text in texts]
        rows = tf.nest.map_structure(str.encode, rows)
        shown = contextlib.nullcontext()
        if len(rows) > batch_size:
            shown = Progress("answering", total=len(rows), unit="texts")
        with shown as progress:
            return in_order(
                rows,
                self._answers,
                length=lambda row: sum(map(len, tf.nest.flatten(row))),
                batch_size=batch_size,
                done=progress and progress.advance,
            )

    def encode(
        self, texts: Sequence[str], batch_size: int = 32, **own: Any
    ) -> np.ndarray:
        """Computes float32 [texts, H]; see `bert.Model.encode`.

        Raises ValueError for a prompt or a smaller size.
        """
        if given := [name for name, value in own.items() if value is not None]:
            raise ValueError(
                f"{' and '.join(given)}: an export gives whole vectors with "
                "its own prompt; load the output_dir of its run."
            )
        found = self.predict(texts, batch_size)
        return np.array([x["vectors"] for x in found], np.float32)

    def _answers(self, rows: Sequence[tuple]) -> list[dict[str, Any]]:
        columns = map(tf.constant, zip(*rows, strict=True))
        inputs = dict(zip(self._shapes, columns, strict=True))
        outputs = self._function(**inputs)
        outputs = {n: _plain(x.numpy().tolist()) for n, x in outputs.items()}
        return [_answer(outputs, place) for place in range(len(rows))]


def find_version(folder: str) -> str | None:
    """Finds the newest version in an export_dir, or takes the folder itself.

    Returns None if the folder is not an export.
    """
    folder = litert_model.folder_of(os.fspath(folder))
    return folder if tf.saved_model.contains_saved_model(folder) else None


def _answer(outputs: Mapping[str, list], place: int) -> dict[str, Any]:
    """Returns one example of the outputs, without padding."""
    answer = {name: x[place] for name, x in outputs.items()}
    padded, size = (), answer.pop("num_words", None)
    if size is not None:
        padded = answer.keys() - {"labels"}
    elif "positions" in answer:
        padded = "positions", "tokens", "probabilities"
        size = sum(x >= 0 for x in answer["positions"])
    return answer | {name: answer[name][:size] for name in padded}


def _plain(value: Any) -> Any:
    """Converts bytes to strings, in lists, too."""
    if isinstance(value, list):
        return [_plain(x) for x in value]
    return value.decode("utf-8") if isinstance(value, bytes) else value
