"""Encoder that makes one vector of each text, and what trains it.

Axis letters: see `layers`; C texts of an example, K numbers of a vector.
"""

from typing import Any

import tensorflow as tf

from data.text.packing import INPUTS
from modeling import pooling
from modeling.bert import encoder_of
from modeling.checkpoints.vector_form import VectorForm
from modeling.config import BertConfig
from modeling.kernels.recomputation import computed_in_parts
from modeling.kernels.seeds import split_seed
from modeling.objectives import vector_losses
from modeling.objectives.base import Batch, Objective
from modeling.objectives.vector_losses.similarity import unit


class SentenceEncoder(Objective):
    """BERT with a vector for each text (Sentence-BERT, arXiv:1908.10084).

    A batch of texts holds int32 `input_ids`, `input_mask` (1 = real) and
    `segment_ids`, [B, S] each. A batch to train on has these with the number of
    the text, such as `input_ids_0`, each with an S of its own; and float32
    `label_ids`, scores [B, 1] or a teacher's vectors [B, H], if the loss needs
    them.

    A loss compares all examples of a batch, on all devices: each computes the
    loss of the whole batch. It is the mean over all sizes of the `form`
    (Matryoshka, arXiv:2205.13147). For `scale` see `vector_losses`. Texts are
    encoded in `num_parts`, whose activations are computed again for the
    gradient. `options` are arguments of `BertModel`.
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        form: VectorForm | None = None,
        loss: str = "cosent",
        scale: float = 20.0,
        num_parts: int = 1,
        **options: Any,
    ):
        super().__init__(encoder_of(config, **options))
        self.form = form or VectorForm()
        self.sizes = self.form.sizes(config.hidden_size)
        self._loss = vector_losses.get(loss)
        self._scale = scale
        self._num_parts = num_parts

    def vectors(
        self, batch: Batch, dropout_seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Computes the vectors of texts, float32 [B, H]; 0 for empty rows."""
        words = self.encode(batch, dropout_seed).get_sequence_output()
        mask = batch["input_mask"]
        vectors = pooling.pool_last(words, mask, self.form.pooling)
        return unit(vectors) if self.form.normalize else vectors

    def score_examples(self, batch: Batch) -> Batch:
        """Computes `vectors` for `OutputCollector`."""
        return {"vectors": self.vectors(batch)}

    def loss_weights(self, batch):
        """Counts the examples, which the loss does itself; see `Objective`."""
        count = tf.shape(batch["input_ids_0"])[0]
        return {"examples": tf.cast(count, tf.float32)}

    def losses(self, batch, loss_weights, dropout_seed=None):
        """Computes a device's share of the loss; see `Objective`."""
        count = sum(name.startswith("input_ids_") for name in batch)
        seeds = split_seed(dropout_seed, count)
        parts = [self._texts(batch, *numbered) for numbered in enumerate(seeds)]
        parts += [batch[name] for name in ("label_ids",) if name in batch]
        replica = tf.distribute.get_replica_context()
        if replica.num_replicas_in_sync > 1:
            parts = [replica.all_gather(part, axis=0) for part in parts]
        losses = []
        for size in self.sizes:
            cut = [part[:, :size] for part in parts]
            vectors, targets = cut[:count], cut[count:] or [None]
            losses.append(self._loss(vectors, *targets, self._scale))
        loss = tf.add_n(losses) / len(losses)
        # The loop adds up the losses of all devices, as `all_gather` does with
        # their gradients.
        return loss / replica.num_replicas_in_sync, {}

    def _texts(self, batch, number, seed):
        """The vectors of the texts with a number, float32 [B, H]."""
        texts = {name: batch[f"{name}_{number}"] for name in INPUTS}
        if self._num_parts == 1:
            return self.vectors(texts, seed)
        return computed_in_parts(
            self.vectors, texts, seed, self._num_parts, self.bert.variables
        )


MODEL = SentenceEncoder
