"""Sentence vectors of texts that are given in Python, and search among them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from data.vectors import vector_index
from data.vectors.text_lists import TextList
from data.vectors.vector_index import Index
from modeling.loading import LoadedModel
from training.vectors.sentence_encoding import SentenceVectors

# Usual names of prompts.
QUERY = "query"
_DOCUMENT = ("document", "passage", "corpus")


class SentenceTexts:
    """Computes the vectors of a model of the kind `vectors`, and searches.

    For `max_seq_length` see `SentenceVectors`.
    """

    def __init__(self, loaded: LoadedModel, max_seq_length: int | None = None):
        self._loaded, self._max_seq_length = loaded, max_seq_length
        # (batch size, vector size) -> what computes; it traces its graph once.
        self._encoders: dict[tuple, SentenceVectors] = {}

    def encode(
        self,
        texts: Sequence[str],
        *,
        batch_size: int = 32,
        prompt_name: str | None = None,
        vector_size: int | None = None,
    ) -> np.ndarray:
        """Computes float32 [texts, size]; see `bert.Model.encode`.

        Raises ValueError for a text that is no string, an unknown prompt or
        size, or a batch_size below 1.
        """
        encoder = self._encoder(batch_size, vector_size)
        prompt = encoder.form.prompt(prompt_name)
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise ValueError(
                    f"texts[{number}] is {text!r:.60}, expected a string: a "
                    "sentence vector is that of one text."
                )
        encoded = encoder.all(texts, prompt)
        if encoded.num_cut:
            logging.warning(
                "%d of %d texts were longer than %d wordpieces and lost what "
                "did not fit.",
                *(encoded.num_cut, len(texts), encoder.max_seq_length),
            )
        return encoded.vectors

    def search(
        self,
        questions: Sequence[str],
        texts: Sequence[str] | str,
        *,
        top_k: int,
        batch_size: int,
    ) -> list[list[dict[str, Any]]]:
        """Finds the texts nearest to each question; see `bert.Model.search`."""
        prompts, size = self._loaded.model.form.prompts, None
        if top_k < 1:
            raise ValueError(f"top_k is {top_k}, expected 1 or more.")
        if isinstance(texts, str):
            size = vector_index.facts_of(texts).get("vector_size")
            made_with = self._encoder(batch_size, size).fingerprint()
            index = vector_index.open_index(texts, made_with)
        else:
            name = next((n for n in _DOCUMENT if n in prompts), None)
            vectors = self.encode(
                texts, batch_size=batch_size, prompt_name=name
            )
            index = Index(vectors, TextList(texts), is_unit=False)
        vectors = self.encode(
            questions,
            batch_size=batch_size,
            prompt_name=QUERY if QUERY in prompts else None,
            vector_size=size,
        )
        return list(index.search(vectors, top_k))

    def _encoder(
        self, batch_size: int, vector_size: int | None
    ) -> SentenceVectors:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected 1 or more.")
        key = batch_size, vector_size
        if key not in self._encoders:
            self._encoders[key] = SentenceVectors(
                self._loaded,
                max_seq_length=self._max_seq_length,
                batch_size=batch_size,
                vector_size=vector_size,
            )
        return self._encoders[key]
