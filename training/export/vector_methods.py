"""The methods of `bert.Model` that compute vectors. Loads no TensorFlow."""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from training.export.asking import listed

if TYPE_CHECKING:
    from modeling import LoadedModel
    from training.vectors.texts import TextVectors

Text = str | tuple[str, str]


class VectorMethods:
    """Vectors of texts and words, and search among them.

    Attributes:
      folder: the model's folder.
      kind: see `bert.Model`.
      loaded: see `bert.Model`.
    """

    folder: str
    kind: str
    loaded: "LoadedModel | None" = None
    # Of an export, what computes sentence vectors.
    _vectors: "TextVectors | Any" = None

    def encode(
        self,
        texts: Iterable[Text],
        *,
        pooling: str | None = None,
        layers: Sequence[int | str] = (-1,),
        layer_mix: str = "concat",
        batch_size: int = 32,
        **own: Any,
    ) -> np.ndarray:
        """Computes a vector of each text, as extract_features.py does.

        A model of sentence vectors, one of sentence-transformers too, computes
        its own, unless `pooling` is given.

        Args:
          texts: strings, or pairs of strings.
          pooling: `mean` or `max` of all wordpieces, or `cls`, that of [CLS];
            None = as the model says, else `mean`. A model of sentence vectors
            needs it for other `layers` and `layer_mix`.
          layers: blocks whose outputs are taken: 0 = the first, -1 = the last,
            `embeddings` = what enters the first.
          layer_mix: how those of several layers become one: `concat` or `sum`.
          batch_size: texts computed at once.
          **own: of a model of sentence vectors: `prompt_name`, which of its
            prompts is put before each text, and `vector_size`, a smaller size.
            They are for its own vectors, without `pooling`.

        Returns:
          float32 [texts, width]; the width is the hidden size, times the
          number of layers if they are concatenated.

        Raises:
          ValueError: an argument is wrong, or would be ignored.
        """
        if pooling == "none":
            raise ValueError("pooling is 'none'; call encode_words for that.")
        texts = listed(texts)
        options = {"pooling": pooling} | _mixed(layers, layer_mix)
        if own or (self.kind == "vectors" and pooling is None):
            vectors = self._sentence_vectors()
            usual = {"pooling": None, "layers": (-1,), "layer_mix": "concat"}
            if ignored := ", ".join(n for n in usual if options[n] != usual[n]):
                raise ValueError(
                    f"encode would ignore {ignored}: without pooling, or with "
                    "prompt_name or vector_size, it computes the model's own "
                    "sentence vectors; leave out the one or the other."
                )
            return vectors.encode(texts, batch_size=batch_size, **own)
        options["pooling"] = pooling or "mean"
        lines = self._text_vectors().lines(texts, batch_size, **options)
        return np.stack([line.vectors[0, 0] for line in lines])

    def search(
        self,
        questions: Iterable[str],
        texts: Iterable[str] | str,
        *,
        top_k: int = 10,
        batch_size: int = 32,
    ) -> list[list[dict[str, Any]]]:
        """Finds the texts that are nearest to each question.

        Args:
          questions: strings; the model's prompt `query`, if it has one, is put
            before each.
          texts: strings, with the model's prompt `document`, `passage` or
            `corpus` before each, if it has one; or the path of an index that
            run_sentence_vectors.py --do_encode wrote with this model.
          top_k: texts for each question.
          batch_size: texts computed at once.

        Returns:
          For each question the nearest texts, the best first: `score` (the
          cosine), `row` (the place of the text, from 0) and `text`.
        """
        from data.vectors import vector_index
        from training.vectors.texts import DOCUMENT, QUERY

        if not isinstance(top_k, int | np.integer) or top_k < 1:
            raise ValueError(f"top_k is {top_k!r}, expected 1, 2, ...")
        self._sentence_vectors()  # the kind fits
        vectors, questions = self._text_vectors(), listed(questions)
        if isinstance(texts, str | os.PathLike):
            path = os.fspath(texts)
            index = vector_index.open_index(path, vectors.fingerprint())
        else:
            texts, name = listed(texts), vectors.form.usual(DOCUMENT)
            found = vectors.encode(texts, batch_size, name)
            index = vector_index.Index(found, texts, is_unit=False)
        name, size = vectors.form.usual(QUERY), index.vectors.shape[1]
        asked = vectors.encode(questions, batch_size, name, size)
        return list(index.search(asked, top_k))

    def encode_words(
        self,
        texts: Iterable[Text],
        *,
        whole_words: bool = True,
        layers: Sequence[int | str] = (-1,),
        layer_mix: str = "concat",
        batch_size: int = 32,
    ) -> list[tuple[list[str], np.ndarray]]:
        """Computes a vector of each word, as extract_features.py does.

        Without `whole_words`, of each wordpiece. The other arguments are those
        of `encode`. Returns for each text its words or wordpieces, with [CLS]
        and [SEP], and their vectors, float32 [words, width].
        """
        options = _mixed(layers, layer_mix) | {"whole_words": whole_words}
        lines = self._text_vectors().lines(listed(texts), batch_size, **options)
        return [(list(line.names), line.vectors[:, 0]) for line in lines]

    def attention(
        self, text: Text, layer: int = -1
    ) -> tuple[list[str], np.ndarray]:
        """Computes how much the wordpieces of one text attend to each other.

        The text is a string or a pair of strings; layer 0 is the first block,
        -1 the last. Returns the wordpieces, and float32 [heads, wordpieces,
        wordpieces]: a row sums to 1 and says what its wordpiece attends to.
        """
        return self._text_vectors().attention(text, layer)

    def _sentence_vectors(self) -> "TextVectors":
        if self.kind != "vectors":
            raise ValueError(
                f"{self.folder} is of the kind {self.kind}, not vectors; pass "
                "kind='vectors' to load(), or the folder of such a model."
            )
        return self._vectors

    def _text_vectors(self) -> "TextVectors":
        if not self.loaded:
            raise ValueError(
                f"{self.folder} is an export, without an index, layers and "
                "gradients; load the output_dir of its run."
            )
        return self._vectors


def _mixed(layers: Sequence[int | str], layer_mix: str) -> dict[str, Any]:
    """The options of one vector of some layers; refuses several vectors."""
    if isinstance(layers, str) or not isinstance(layers, Iterable):
        raise ValueError(f"layers is {layers!r}, expected a list, as [-1].")
    if layer_mix == "separate" and len(layers) > 1:
        raise ValueError(
            "layer_mix is 'separate', which makes a vector of each layer; give "
            "concat or sum, or call once for each layer."
        )
    return {"layers": tuple(layers), "layer_mix": layer_mix}
