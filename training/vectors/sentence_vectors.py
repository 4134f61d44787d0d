"""Sentence vectors of texts, and search among them.

Axes: H hidden, K numbers of a vector.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from data.vectors import text_rows, vector_index
from data.vectors.retrieval import unit
from data.vectors.text_rows import TextRow
from data.vectors.vector_index import Index
from modeling import checkpoints
from modeling.loading import LoadedModel
from training.config.extraction_options import VectorOptions
from training.vectors.extractor import Extractor
from training.vectors.texts import TextVectors

# Usual names of prompts.
QUERY = ("query",)
_DOCUMENT = ("document", "passage", "corpus")


class SentenceVectors(TextVectors):
    """Computes the vectors of a model of the kind `vectors`, and searches."""

    def __init__(self, loaded: LoadedModel, max_seq_length: int | None = None):
        super().__init__(loaded, max_seq_length)
        self.form = loaded.model.form

    def encode(
        self,
        texts: Sequence[str],
        *,
        batch_size: int = 32,
        prompt_name: str | None = None,
        vector_size: int | None = None,
    ) -> np.ndarray:
        """Computes float32 [texts, K]; see `bert.Model.encode`.

        Raises ValueError for a text that is no string, an unknown prompt or
        size, or a batch_size below 1.
        """
        size, prompt = self.size_of(vector_size), self.form.prompt(prompt_name)
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise ValueError(
                    f"texts[{number}] is {text!r:.60}, expected a string: a "
                    "sentence vector is that of one text."
                )
        rows = list(self.rows(texts, prompt))
        lines = self.extracted(rows, self.sentence_extractor(batch_size))
        return self.finished(np.stack([x.vectors[0, 0] for x in lines]), size)

    def rows(self, texts: Iterable[str], prompt: str) -> Iterator[TextRow]:
        """Yields the rows of texts, with a prompt before each."""
        for number, text in enumerate(texts):
            yield text_rows.single_row(
                prompt + text,
                *(self.loaded.tokenizer, self.max_seq_length, number),
            )

    def sentence_extractor(self, batch_size: int) -> Extractor:
        """Returns what computes the vectors of rows before `finished`."""
        options = VectorOptions(layers=(-1,), pooling=self.form.pooling)
        return self.extractor(options, batch_size, "encode_batch_size")

    def size_of(self, vector_size: int | None) -> int:
        """Returns K, the full size for None; refuses what was not trained."""
        sizes = self.form.sizes(self.loaded.config.hidden_size)
        if vector_size and vector_size not in sizes:
            raise ValueError(
                f"--vector_size={vector_size}, but the model was trained for "
                f"vectors of {' or '.join(map(str, sizes))} numbers."
            )
        return vector_size or sizes[0]

    def finished(self, vectors: np.ndarray, size: int) -> np.ndarray:
        """Returns the first K numbers, of length 1 if the form says so."""
        vectors = vectors[..., :size]
        return unit(vectors) if self.form.normalize else vectors

    def search(
        self,
        questions: Sequence[str],
        texts: Sequence[str] | str,
        *,
        top_k: int,
        batch_size: int,
    ) -> list[list[dict[str, Any]]]:
        """Finds the texts nearest to each question; see `bert.Model.search`."""
        if top_k < 1:
            raise ValueError(f"top_k is {top_k}, expected 1 or more.")
        if isinstance(texts, str):
            index = self.open_index(texts)
        else:
            vectors = self.encode(
                texts,
                batch_size=batch_size,
                prompt_name=self.form.usual(_DOCUMENT),
            )
            index = Index(vectors, texts, is_unit=False)
        vectors = self.encode(
            questions,
            batch_size=batch_size,
            prompt_name=self.form.usual(QUERY),
            vector_size=index.vectors.shape[1],
        )
        return list(index.search(vectors, top_k))

    def open_index(self, path: str) -> Index:
        """Opens an index that was made with this model."""
        return vector_index.open_index(path, self.fingerprint())

    def fingerprint(self) -> dict[str, Any]:
        """Returns what vectors must have in common to be compared.

        Of the encoder's weights those that make vectors; not the pooler.
        """
        weights, tokenizer = hashlib.sha256(), self.loaded.tokenizer
        variables = checkpoints.variables_by_name([self.loaded.encoder])
        for name in sorted(variables):
            if not name.startswith("bert/pooler/"):
                weights.update(name.encode())
                weights.update(variables[name].numpy().tobytes())
        words = json.dumps(sorted(tokenizer.vocab.items())).encode()
        return {
            "weights_sha256": weights.hexdigest(),
            "vocabulary_sha256": hashlib.sha256(words).hexdigest(),
            "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
            "pooling": self.form.pooling,
            "normalize": self.form.normalize,
            "max_seq_length": self.max_seq_length,
        }
