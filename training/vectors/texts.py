"""Vectors of texts that are given in Python.

Axes: N heads, S wordpieces, H hidden, K numbers of a vector.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from data.records import reuse
from data.text.tokenization import whole_characters
from data.vectors.retrieval import unit
from data.vectors.text_rows import RowMaker, TextRow
from data.vectors.vector_files import LineVectors
from modeling import checkpoints
from modeling.embeddings import require_pairs
from modeling.loading import LoadedModel
from training.config.extraction_options import VectorOptions
from training.start import description
from training.vectors.extractor import Extractor, check_layer

# Usual names of prompts.
QUERY = ("query",)
DOCUMENT = ("document", "passage", "corpus")


class TextVectors:
    """Computes vectors of texts, as extract_features.py does.

    For a model of the kind `vectors` also its own. `max_seq_length` is the most
    wordpieces in a text, None = as in the training, else the model's positions.
    Raises ValueError for more, and for another vocabulary than the model's.
    """

    def __init__(self, loaded: LoadedModel, max_seq_length: int | None = None):
        description.warn_if_unfinished(loaded.folder, loaded.description)
        description.require_vocabulary(loaded.folder, loaded.tokenizer)
        most = loaded.config.max_position_embeddings
        if max_seq_length is None:
            max_seq_length = loaded.max_seq_length or most
        if not 3 <= max_seq_length <= most:  # [CLS] a [SEP]
            raise ValueError(
                f"--max_seq_length={max_seq_length}; it must be 3 to {most}, "
                "the number of positions of the model."
            )
        self.loaded = loaded
        self.form = getattr(loaded.model, "form", None)
        self.max_seq_length = max_seq_length
        self._rows = RowMaker(loaded.tokenizer, max_seq_length)
        make = partial(Extractor, loaded.encoder, max_seq_length=max_seq_length)
        # What computes by some options traces its graph once.
        self._extractor = cache(make)

    def lines(
        self, texts: Sequence[Any], batch_size: int, **options: Any
    ) -> list[LineVectors]:
        """Computes the vectors of texts, in their order.

        A text is a string, or a pair of strings; `options` are fields of
        `VectorOptions`. Raises ValueError for other texts, for a layer that the
        model does not have, and for pooling `cls` of one that reads left to
        right.
        """
        extractor = self.extractor(VectorOptions(**options), batch_size)
        rows = [self._row(text, number) for number, text in enumerate(texts)]
        return list(extractor.extract_all(rows, len(rows)))

    def attention(self, text: Any, layer: int) -> tuple[list[str], np.ndarray]:
        """Computes a text's S wordpieces and a block's maps, float32 [N, S, S].

        `text` is a string or a pair of strings; `layer` 0 is the first block,
        -1 the last. Raises ValueError for anything else.
        """
        options = VectorOptions(layers=(layer,), attention=True)
        row = self._row(text, 0)
        return row.tokens, self.extractor(options, 1).attention(row, layer)

    def extractor(self, options: VectorOptions, batch_size: int) -> Extractor:
        """Returns the extractor for some options; refuses missing layers."""
        for layer in options.layers:
            check_layer("layers", layer, self.loaded.config.num_hidden_layers)
        if not isinstance(batch_size, int | np.integer) or batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected 1, 2, ...")
        return self._extractor(options, batch_size=batch_size)

    def _row(self, text: Any, number: int) -> TextRow:
        """Tokenizes a text; refuses what is neither a string nor a pair."""
        texts = (text,) if isinstance(text, str) else text
        is_text = isinstance(texts, tuple | list) and len(texts) in (1, 2)
        if not is_text or not all(isinstance(part, str) for part in texts):
            raise ValueError(
                f"texts[{number}] is {text!r:.60}, expected one or two strings."
            )
        if second := "".join(texts[1:]):
            require_pairs(self.loaded.config, f"texts[{number}]")
        first, second = map(whole_characters, (texts[0], second))
        return self._rows.pair(first, second)

    def encode(
        self,
        texts: Sequence[str],
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
        extractor = self.sentence_extractor(batch_size)
        lines = extractor.extract_all(self.rows(texts, prompt), len(texts))
        return self.finished(np.stack([x.vectors[0, 0] for x in lines]), size)

    def rows(self, texts: Iterable[str], prompt: str) -> Iterator[TextRow]:
        """Yields the rows of texts, with a prompt before each."""
        for text in texts:
            yield self._rows.single(whole_characters(prompt + text))

    def sentence_extractor(self, batch_size: int) -> Extractor:
        """Returns what computes the model's own vectors before `finished`."""
        options = VectorOptions(layers=(-1,), pooling=self.form.pooling)
        return self.extractor(options, batch_size)

    def size_of(self, vector_size: int | None) -> int:
        """Returns K, the full size for None; refuses what was not trained."""
        sizes = self.form.sizes(self.loaded.config.hidden_size)
        if vector_size not in (None, *sizes):
            raise ValueError(
                f"--vector_size={vector_size}, but the model was trained for "
                f"vectors of {' or '.join(map(str, sizes))} numbers."
            )
        return vector_size or sizes[0]

    def finished(self, vectors: np.ndarray, size: int) -> np.ndarray:
        """Returns the first K numbers, of length 1 if the form says so."""
        vectors = vectors[..., :size]
        return unit(vectors) if self.form.normalize else vectors

    def fingerprint(self) -> dict[str, Any]:
        """Returns what two models must share for comparable vectors.

        The checksum of the encoder's weights leaves out the pooler.
        """
        weights = hashlib.sha256()
        variables = checkpoints.variables_by_name([self.loaded.encoder])
        for name in sorted(variables):
            if not name.startswith("bert/pooler/"):
                weights.update(name.encode())
                weights.update(variables[name].numpy().tobytes())
        return {
            **reuse.tokenizer_facts(self.loaded.tokenizer),
            "weights_sha256": weights.hexdigest(),
            "pooling": self.form.pooling,
            "normalize": self.form.normalize,
            "max_seq_length": self.max_seq_length,
        }
