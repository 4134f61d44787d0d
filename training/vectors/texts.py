"""Vectors of texts that are given in Python."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from data.progress import Progress
from data.vectors.text_rows import TextRow, row_of
from data.vectors.vector_files import LineVectors
from modeling.embeddings import require_pairs
from modeling.loading import LoadedModel
from training.config.extraction_options import VectorOptions
from training.vectors.extractor import Extractor, check_layer


class TextVectors:
    """Computes vectors of texts, as extract_features.py does.

    `max_seq_length` is the most wordpieces in a text; None = as in the
    training, else as many as the model has positions. Raises ValueError for
    more.
    """

    def __init__(self, loaded: LoadedModel, max_seq_length: int | None = None):
        most = loaded.config.max_position_embeddings
        if max_seq_length is None:
            max_seq_length = loaded.max_seq_length or most
        if not 3 <= max_seq_length <= most:  # [CLS] a [SEP]
            raise ValueError(
                f"max_seq_length is {max_seq_length}, expected 3 to {most}, "
                "the number of positions of the model."
            )
        self._loaded = loaded
        self._max_seq_length = max_seq_length
        # Options -> what computes by them: each traces its graph once.
        self._extractors: dict[tuple, Extractor] = {}

    def lines(
        self, texts: Sequence[Any], batch_size: int, **options: Any
    ) -> list[LineVectors]:
        """Computes the vectors of texts, in batches of similar length.

        Args:
          texts: strings, or pairs of strings.
          batch_size: texts computed at once.
          **options: fields of `VectorOptions`.

        Returns:
          The vectors, in the order of the texts.

        Raises:
          ValueError: a text is neither a string nor a pair of strings, the
            model has no such layer, or it reads left to right and the pooling
            is `cls`.
        """
        extractor = self._extractor(VectorOptions(**options), batch_size)
        rows = [self._row(text, number) for number, text in enumerate(texts)]
        with Progress("encoding", total=len(rows), unit="texts") as progress:
            lines = extractor.extract(rows, progress.advance)
        num_cut = sum(row.num_lost > 0 for row in rows)
        if num_cut:
            logging.warning(
                "%d of %d texts were longer than %d wordpieces and lost what "
                "did not fit.",
                num_cut,
                len(rows),
                self._max_seq_length,
            )
        return lines

    def attention(self, text: Any, layer: int) -> tuple[list[str], np.ndarray]:
        """Computes a text's S wordpieces and a block's maps, float32 [N, S, S].

        `text` is a string or a pair of strings; `layer` 0 is the first block,
        -1 the last. Raises ValueError for anything else.
        """
        options = VectorOptions(layers=(layer,), attention=True)
        row = self._row(text, 0)
        return row.tokens, self._extractor(options, 1).attention(row, layer)

    def _extractor(self, options: VectorOptions, batch_size: int) -> Extractor:
        """Returns the extractor for some options; refuses missing layers."""
        for layer in options.layers:
            check_layer("layers", layer, self._loaded.config.num_hidden_layers)
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected 1 or more.")
        if (options, batch_size) not in self._extractors:
            self._extractors[options, batch_size] = Extractor(
                self._loaded.encoder,
                options,
                max_seq_length=self._max_seq_length,
                batch_size=batch_size,
            )
        return self._extractors[options, batch_size]

    def _row(self, text: Any, number: int) -> TextRow:
        """Tokenizes a text; refuses what is neither a string nor a pair."""
        texts = (text,) if isinstance(text, str) else text
        is_text = isinstance(texts, tuple | list) and len(texts) in (1, 2)
        if not is_text or not all(isinstance(part, str) for part in texts):
            raise ValueError(
                f"texts[{number}] is {text!r:.60}, expected a string or a pair "
                "of strings."
            )
        second = "".join(texts[1:])
        if second:
            require_pairs(self._loaded.config, f"texts[{number}]")
        return row_of(
            texts[0],
            second,
            self._loaded.tokenizer,
            self._max_seq_length,
            number,
        )
