"""Runs the encoder over rows of text, and gives back vectors.

Axes: B rows of a batch, S wordpieces, L layers, H hidden; W width of a vector
(H, or L * H of concatenated layers), U vectors of a row, N heads.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from data.progress import Progress
from data.vectors.text_rows import TextRow, pad_rows, windows
from data.vectors.vector_files import LineVectors
from modeling import pooling
from modeling.bert import BertModel, BertOutput
from modeling.choices import EMBEDDINGS
from modeling.objectives.base import Batch
from training.config.extraction_options import VectorOptions
from training.config.shared import Options
from training.devices import strategy as devices
from training.inference import Inference, in_order


def check_layer(
    name: str, layer: int | str, num_layers: int, model: str = "the model"
) -> None:
    """Raises ValueError for a layer that a model does not have.

    `layer` counts blocks from 0, or from -1 at the end, or is `EMBEDDINGS`;
    `name` (of the argument) and `model` are for the error.
    """
    known = EMBEDDINGS, *range(-num_layers, num_layers)
    if isinstance(layer, float) or layer not in known:
        raise ValueError(
            f"{name}: there is no layer {layer!r}; {model} has {num_layers}: 0 "
            f"to {num_layers - 1}, or -1 (the last) to {-num_layers}."
        )


def open_strategy(options: Options, flag: str) -> tf.distribute.Strategy:
    """Returns the strategy of one process; `flag` is that of the batch size.

    Raises ValueError for several processes, or a size that cannot be divided.
    """
    if devices.cluster_of(options.device):
        raise ValueError(
            "vectors are made by one process, but TF_CONFIG names several; "
            "unset it, and give each of them a part of the texts."
        )
    devices.check_batch_sizes(options, [flag])
    return devices.create_strategy(options.device)


class Extractor(Inference):
    """Computes vectors of rows; create it in the strategy's scope.

    Vectors are float32 whatever dtype the encoder computes in. `batch_size` is
    B, of rows of full length, over all devices. Raises ValueError for pooling
    `cls` with a left-to-right model.
    """

    def __init__(
        self,
        model: BertModel,
        options: VectorOptions,
        max_seq_length: int,
        batch_size: int,
    ):
        if options.pooling == "cls" and model.config.left_to_right:
            raise ValueError(
                "pooling is cls, but the model reads left to right: [CLS] sees "
                "itself alone. Use mean or max."
            )
        super().__init__(model.compute_dtype)
        self.model = model
        self._options = options
        self._max_seq_length = max_seq_length
        self._batch_size = batch_size
        self._multiple = devices.kind_of(self._strategy).multiple

    def cost(self, row: TextRow) -> int:
        """The number of values that are computed for a row."""
        options, config = self._options, self.model.config
        size, num_layers = len(row.input_ids), len(options.layers)
        num_vectors = size if options.pooling == "none" else 1
        cost = num_vectors * num_layers * config.hidden_size
        if options.attention:
            cost += num_layers * config.num_attention_heads * size**2
        return cost

    def _length(self, row: TextRow) -> int:
        """The places of a row: as many as it has wordpieces, rounded up."""
        return -(-len(row.input_ids) // self._multiple) * self._multiple

    def extract_all(
        self,
        rows: Iterable[TextRow],
        count: int,
        path: str = "texts",
        unit: str = "texts",
    ) -> Iterator[LineVectors]:
        """Yields the vectors of all rows, in their order.

        Those of a window of rows are in memory at the same time. `path` (of the
        rows' file) and `unit` are words for the log, which says how many rows
        were cut. Raises ValueError if there are not `count` rows.
        """
        size, num_read, cut = self._batch_size, 0, 0
        longest = 0 if devices.is_tpu(self._strategy) else self._max_seq_length
        with Progress("extracting", total=count, unit=unit) as progress:
            for window in windows(rows, size, self.cost):
                yield from in_order(
                    window,
                    self._lines,
                    length=self._length,
                    batch_size=size,
                    longest=longest,
                    done=progress.advance,
                    strategy=self._strategy,
                )
                num_read += len(window)
                cut += sum(row.num_lost > 0 for row in window)
        if num_read != count:
            raise ValueError(
                f"{path} had {count} {unit} at first and {num_read} when "
                "read again; give a file that stays as it is, not a pipe."
            )
        # Differs from the original: it cuts in silence.
        if cut:
            logging.warning(
                f"{cut} of {count} {unit} were longer than --max_seq_length="
                f"{self._max_seq_length} wordpieces and lost what did not fit."
            )

    def attention(self, row: TextRow, layer: int) -> np.ndarray:
        """Attention maps of one block, float32 [N, S, S]."""
        batch = pad_rows([row], batch_size=1, length=len(row.input_ids))
        maps = _encode(self.model, batch).attention_probs[layer][0]
        return tf.cast(maps, tf.float32).numpy()

    def _pad(self, rows):
        """Pads rows to a batch; on a TPU always to the same shape."""
        length, batch_size = self._max_seq_length, self._batch_size
        if not devices.is_tpu(self._strategy):
            parts = self._strategy.num_replicas_in_sync
            batch_size = -(-len(rows) // parts) * parts
            length = min(max(map(self._length, rows)), length)
        return pad_rows(rows, batch_size=batch_size, length=length)

    def _lines(self, rows: Sequence[TextRow]) -> list[LineVectors]:
        batch = self._pad(rows)
        try:
            results = self.given(batch)
        except tf.errors.ResourceExhaustedError as error:
            raise ValueError(
                "a batch of {} texts of {} wordpieces does not fit into the "
                "device's memory; pass a smaller --batch_size, or "
                "--encode_batch_size.".format(*batch["input_ids"].shape)
            ) from error
        return [self._line(row, results, i) for i, row in enumerate(rows)]

    def compute(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Computes `vectors` [B, U, W], and `attention` if it is asked for."""
        options = self._options
        output = _encode(self.model, batch)
        outputs = [output.layer(layer) for layer in options.layers]
        mixed = pooling.mix_layers(outputs, options.layer_mix)
        if options.whole_words:
            vectors = pooling.word_means(mixed, batch["word_ids"])
        else:
            vectors = pooling.pool(mixed, batch["input_mask"], options.pooling)
        results = {"vectors": vectors}
        if options.attention:
            maps = [output.attention_probs[layer] for layer in options.layers]
            results["attention"] = tf.cast(tf.stack(maps, axis=1), tf.float32)
        return results

    def _line(self, row, results, i):
        """The results of one row, without its padding."""
        options = self._options
        names = row.words if options.whole_words else row.tokens
        if options.pooling != "none":
            names = [options.pooling]
        attention = None
        if options.attention:
            real = slice(len(row.tokens))
            attention = results["attention"][i, :, :, real, real].copy()
        # A view would keep the whole batch in memory.
        vectors = results["vectors"][i, : len(names)].copy()
        return LineVectors(row.index, names, vectors, row.tokens, attention)


def _encode(model: BertModel, batch) -> BertOutput:
    return model(batch["input_ids"], batch["input_mask"], batch["segment_ids"])
