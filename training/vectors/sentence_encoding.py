"""Computes sentence vectors of texts: in memory, and of files of any size.

Axes: N texts, B rows of a batch, S wordpieces, H hidden, K numbers of a vector.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from data.storage import files
from data.text import packing
from data.vectors.text_lists import read_texts
from data.vectors.text_rows import count_lines
from modeling import checkpoints
from modeling.loading import LoadedModel
from training.inference import Inference, in_order
from training.loop.model import Batch
from training.vectors.extractor import padded_shape

# Texts that are sorted by length and held in memory at once.
_WINDOW = 8192


class Encoded(NamedTuple):
    """Consecutive texts, their vectors, and how many texts were cut."""

    texts: list[str]
    vectors: np.ndarray
    num_cut: int


class SentenceVectors(Inference):
    """Computes sentence vectors; create it in the strategy's scope.

    Args:
      loaded: a model of the kind `vectors`.
      max_seq_length: most wordpieces of a text; None = as in the training, else
        as many as the model has positions.
      batch_size: B, over all devices.
      vector_size: K, the first numbers of a vector are one; None = H.

    Raises:
      ValueError: the model has fewer positions, or no vectors of this size.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        max_seq_length: int | None = None,
        batch_size: int = 32,
        vector_size: int | None = None,
    ):
        super().__init__(loaded.encoder.compute_dtype)
        most = loaded.config.max_position_embeddings
        length = max_seq_length or min(loaded.max_seq_length or most, most)
        sizes = loaded.model.form.sizes(loaded.config.hidden_size)
        if not 3 <= length <= most:  # [CLS] a [SEP]
            raise ValueError(
                f"--max_seq_length={length}; it must be 3 to {most}, the "
                "number of positions of the model."
            )
        if vector_size and vector_size not in sizes:
            raise ValueError(
                f"--vector_size={vector_size}, but the model was trained for "
                f"vectors of {' or '.join(map(str, sizes))} numbers."
            )
        self.loaded, self.form = loaded, loaded.model.form
        self.size = vector_size or loaded.config.hidden_size
        self.max_seq_length = length
        self._batch_size = batch_size

    def encode(
        self,
        texts: Iterable[str],
        prompt: str = "",
        done: Callable[[int], None] | None = None,
    ) -> Iterator[Encoded]:
        """Yields the vectors of consecutive texts, float32 [texts, K].

        `prompt` is put before each text; `done` is called with the number of
        texts of each batch.
        """
        tokenizer = self.loaded.tokenizer
        cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
        most, texts = self.max_seq_length - 2, iter(texts)
        while part := list(itertools.islice(texts, _WINDOW)):
            ids = [tokenizer.encode(prompt + text) for text in part]
            vectors = in_order(
                [[cls_id, *text[:most], sep_id] for text in ids],
                self._batch,
                length=len,
                batch_size=self._batch_size,
                done=done,
            )
            num_cut = sum(len(text) > most for text in ids)
            yield Encoded(part, np.stack(vectors), num_cut)

    def all(self, texts: Iterable[str], prompt: str = "") -> Encoded:
        """Computes the vectors of texts that are in memory, at least one."""
        parts = list(self.encode(texts, prompt))
        return Encoded(
            [text for part in parts for text in part.texts],
            np.concatenate([part.vectors for part in parts]),
            sum(part.num_cut for part in parts),
        )

    def _batch(self, rows: list[list[int]]) -> np.ndarray:
        """Computes a batch of rows, float32 [rows, K]."""
        length, size = padded_shape(
            self._strategy,
            (max(map(len, rows)), len(rows)),
            (self.max_seq_length, self._batch_size),
        )
        batch = packing.pad_batch(
            [(ids, [0] * len(ids)) for ids in rows], length, size
        )
        try:
            vectors = self.given(batch)["vectors"][: len(rows), : self.size]
        except tf.errors.ResourceExhaustedError as error:
            raise ValueError(
                f"--encode_batch_size={self._batch_size}: a batch of {length} "
                "wordpieces does not fit into the device's memory; pass a "
                "smaller one."
            ) from error
        if self.form.normalize and self.size < self.loaded.config.hidden_size:
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors / np.maximum(lengths, 1e-12)
        return vectors

    def compute(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Computes `vectors`, float32 [B, H]."""
        return {"vectors": self.loaded.model.vectors(batch)}

    def fingerprint(self) -> dict[str, Any]:
        """Returns what vectors must have in common to be compared.

        Of the encoder's weights those that make vectors; not the pooler.
        """
        weights, vocab = hashlib.sha256(), self.loaded.tokenizer.vocab
        variables = checkpoints.variables_by_name([self.loaded.encoder])
        for name in sorted(variables):
            if not name.startswith("bert/pooler/"):
                weights.update(name.encode())
                weights.update(variables[name].numpy().tobytes())
        words = json.dumps(sorted(vocab.items())).encode()
        return {
            "weights_sha256": weights.hexdigest(),
            "vocabulary_sha256": hashlib.sha256(words).hexdigest(),
            "pooling": self.form.pooling,
            "normalize": self.form.normalize,
        }


def count_texts(path: str, column: str) -> int:
    """Counts the texts of a file, at least 1; reads all of it."""
    count = sum(1 for _ in read_texts(path, column))
    return count or count_lines(path)


def write_vectors(
    path: str, parts: Iterable[Encoded], shape: tuple[int, int]
) -> int:
    """Writes vectors as a .npy file, or as JSON lines with the texts.

    `shape` is (N, K). Returns how many texts were cut. Raises ValueError if
    there are not N of them.
    """
    num_cut = count = 0
    with files.whole_files([path]) as (temporary,):
        with files.open_write(temporary) as file:
            is_array = path.endswith(".npy")
            if is_array:
                np.lib.format.write_array_header_1_0(
                    file,
                    {"descr": "<f4", "fortran_order": False, "shape": shape},
                )
            for part in parts:
                count += len(part.texts)
                num_cut += part.num_cut
                if is_array:
                    file.write(part.vectors.astype("<f4").tobytes())
                    continue
                pairs = zip(part.texts, part.vectors.tolist(), strict=True)
                for text, vector in pairs:
                    line = {"text": text, "vector": vector}
                    file.write((json.dumps(line) + "\n").encode())
        if count != shape[0]:
            raise ValueError(
                f"the texts were {shape[0]} at first and {count} when read "
                "again; give a file that stays as it is (a pipe can be read "
                "only once)."
            )
    return num_cut
