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
    loss of the whole batch, and the gradient of its own vectors. It is the mean
    over all sizes of the `form` (Matryoshka, arXiv:2205.13147). For `scale` see
    `vector_losses`. Texts are encoded in `num_parts`, whose activations are
    computed again for the gradient. `options` are arguments of `BertModel`.
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        form: VectorForm | None = None,
        loss: str = "cosent",
        num_texts: int = 2,
        scale: float = 20.0,
        num_parts: int = 1,
        **options: Any,
    ):
        super().__init__(encoder_of(config, **options))
        self.form = form or VectorForm()
        self.sizes = self.form.sizes(config.hidden_size)
        self._loss = vector_losses.get(loss)
        self._num_texts = num_texts
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
        seeds = split_seed(dropout_seed, self._num_texts)
        parts = [self._texts(batch, *numbered) for numbered in enumerate(seeds)]
        parts += [batch[name] for name in ("label_ids",) if name in batch]
        parts = _of_all_devices(parts)
        losses = [self._loss_at(size, parts) for size in self.sizes]
        loss = tf.add_n(losses) / len(losses)
        # The loop adds up the losses of all devices, and their gradients.
        count = tf.distribute.get_replica_context().num_replicas_in_sync
        return loss - tf.stop_gradient(loss) * (1.0 - 1.0 / count), {}

    def _loss_at(self, size, parts):
        """The loss of the first numbers of the vectors, and of the targets."""
        parts = [part[:, :size] for part in parts]
        vectors, targets = parts[: self._num_texts], parts[self._num_texts :]
        return self._loss(vectors, *targets or [None], self._scale)

    def _texts(self, batch, number, seed):
        """The vectors of the texts with a number, float32 [B, H]."""
        texts = {name: batch[f"{name}_{number}"] for name in INPUTS}
        if self._num_parts == 1:
            return self.vectors(texts, seed)
        return computed_in_parts(
            self.vectors, texts, seed, self._num_parts, self.bert.variables
        )


def _of_all_devices(parts: list[tf.Tensor]) -> list[tf.Tensor]:
    """Gathers rows from all devices; only the own ones have a gradient."""
    replica = tf.distribute.get_replica_context()
    if replica.num_replicas_in_sync == 1:
        return parts
    size = tf.shape(parts[0])[0]
    start = replica.replica_id_in_sync_group * size
    everyone = replica.all_gather(
        [tf.identity(tf.stop_gradient(x)) for x in parts], axis=0
    )
    return [
        tf.concat([x[:start], own, x[start + size :]], axis=0)
        for x, own in zip(everyone, parts, strict=True)
    ]


MODEL = SentenceEncoder
