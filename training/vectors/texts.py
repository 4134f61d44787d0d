"""Vectors of texts that are given in Python."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from data.vectors.text_rows import TextRow, row_of
from data.vectors.vector_files import LineVectors
from modeling.embeddings import require_pairs
from modeling.loading import LoadedModel
from training.config.extraction_options import VectorOptions
from training.vectors.extractor import Extractor, check_layer


class TextVectors:
    """Computes vectors of texts, as extract_features.py does.

    `max_seq_length` is the most wordpieces in a text, None = as in the
    training, else the model's positions. Raises ValueError for more.
    """

    def __init__(self, loaded: LoadedModel, max_seq_length: int | None = None):
        most = loaded.config.max_position_embeddings
        if max_seq_length is None:
            max_seq_length = loaded.max_seq_length or most
        if not 3 <= max_seq_length <= most:  # [CLS] a [SEP]
            raise ValueError(
                f"--max_seq_length={max_seq_length}; it must be 3 to {most}, "
                "the number of positions of the model."
            )
        self.loaded = loaded
        self.max_seq_length = max_seq_length
        # Options -> what computes by them: each traces its graph once.
        self._extractors: dict[tuple, Extractor] = {}

    def lines(
        self,
        texts: Sequence[Any],
        batch_size: int,
        layers: Sequence[int | str],
        layer_mix: str,
        **options: Any,
    ) -> list[LineVectors]:
        """Computes the vectors of texts, in their order.

        A text is a string, or a pair of strings; `options` are fields of
        `VectorOptions`. Raises ValueError for other texts, for a layer that the
        model does not have, and for pooling `cls` of one that reads left to
        right.
        """
        options |= {"layers": tuple(layers), "layer_mix": layer_mix}
        extractor = self.extractor(VectorOptions(**options), batch_size)
        rows = [self._row(text, number) for number, text in enumerate(texts)]
        return self.extracted(rows, extractor)

    def extracted(
        self, rows: Sequence[TextRow], extractor: Extractor
    ) -> list[LineVectors]:
        """Computes the vectors of rows, and warns of texts that were cut."""
        names = {"path": "texts", "what": "encoding", "unit": "texts"}
        lines: list[LineVectors] = []
        extractor.extract_all(rows, len(rows), lines.append, **names)
        return lines

    def attention(self, text: Any, layer: int) -> tuple[list[str], np.ndarray]:
        """Computes a text's S wordpieces and a block's maps, float32 [N, S, S].

        `text` is a string or a pair of strings; `layer` 0 is the first block,
        -1 the last. Raises ValueError for anything else.
        """
        options = VectorOptions(layers=(layer,), attention=True)
        row = self._row(text, 0)
        return row.tokens, self.extractor(options, 1).attention(row, layer)

    def extractor(
        self, options: VectorOptions, batch_size: int, flag: str = "batch_size"
    ) -> Extractor:
        """Returns the extractor for some options; refuses missing layers."""
        for layer in options.layers:
            check_layer("layers", layer, self.loaded.config.num_hidden_layers)
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected 1 or more.")
        if (options, batch_size) not in self._extractors:
            self._extractors[options, batch_size] = Extractor(
                self.loaded.encoder,
                options,
                max_seq_length=self.max_seq_length,
                batch_size=batch_size,
                flag=flag,
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
            require_pairs(self.loaded.config, f"texts[{number}]")
        return row_of(
            texts[0],
            second,
            self.loaded.tokenizer,
            self.max_seq_length,
            number,
        )
