"""Encoder that makes one vector of each text.

Axis letters: see `layers`.
"""

from typing import Any

import tensorflow as tf

from modeling import pooling
from modeling.bert import BertModel
from modeling.config import BertConfig
from modeling.objectives.base import Batch, Objective
from modeling.vector_form import VectorForm


class SentenceEncoder(Objective):
    """BERT with a vector for each text (Sentence-BERT, arXiv:1908.10084).

    A batch of texts holds int32 `input_ids`, `input_mask` (1 = real) and
    `segment_ids`, [B, S] each.

    Args:
      config: the model's sizes.
      form: how the vectors are made; None = `VectorForm`'s defaults.
      dtype: `float32`, `mixed_bfloat16` or `mixed_float16`.
      **options: other arguments of `BertModel`.
    """

    metric = "spearman"
    reads_pooler = False

    def __init__(
        self,
        config: BertConfig,
        *,
        form: VectorForm | None = None,
        dtype: str = "float32",
        **options: Any,
    ):
        super().__init__(BertModel(config, dtype=dtype, **options))
        self.form = form or VectorForm()
        self.sizes = self.form.sizes(config.hidden_size)

    def vectors(
        self, batch: Batch, dropout_seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Computes the vectors of texts, float32 [B, H]; 0 for empty rows."""
        words = self.encode(batch, dropout_seed).get_sequence_output()
        words = tf.cast(words, tf.float32)[:, :, tf.newaxis]
        pooled = pooling.pool(words, batch["input_mask"], self.form.pooling)
        vectors = pooled[:, 0, 0]
        return unit(vectors) if self.form.normalize else vectors

    def score_examples(self, batch: Batch) -> Batch:
        """Computes `vectors` for `OutputCollector`."""
        return {"vectors": self.vectors(batch)}

    def loss_weights(self, batch: Batch) -> Batch:
        """See `Objective`."""
        raise NotImplementedError

    def losses(self, batch, loss_weights, dropout_seed=None):
        """See `Objective`."""
        raise NotImplementedError


def unit(vectors: tf.Tensor) -> tf.Tensor:
    """Divides vectors [..., H] by their lengths."""
    return tf.math.l2_normalize(vectors, axis=-1, epsilon=1e-24)


MODEL = SentenceEncoder
