"""Encoder + both pretraining heads: batch in, loss and metrics out."""

import tensorflow as tf

from modeling import heads, losses
from modeling.bert import BertModel, BertOutput
from modeling.config import BertConfig

_LABELS = "next_sentence_labels"


class PretrainingModel:
    """BERT as it is pretrained: masked LM and next sentence (section 3.1).

    Batches without `next_sentence_labels` hold no pairs: they train masked LM
    alone.

    What a training loop needs of any model is `layers`, `loss_weights` and
    `losses`.

    Args:
      config: the model's sizes.
      dtype: `float32`, `mixed_bfloat16` or `mixed_float16`.
      use_one_hot_embeddings: see `embeddings.Embeddings`.
      gradient_checkpointing: see `transformer.Encoder`.
      whole_last_layer: see `transformer.Encoder`.

    Source: `run_pretraining.model_fn_builder`.
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        dtype: str = "float32",
        use_one_hot_embeddings: bool = False,
        gradient_checkpointing: bool = False,
        whole_last_layer: bool = False,
    ):
        self.config = config
        self.bert = BertModel(
            config,
            dtype=dtype,
            use_one_hot_embeddings=use_one_hot_embeddings,
            gradient_checkpointing=gradient_checkpointing,
            whole_last_layer=whole_last_layer,
        )
        self.cls = heads.PretrainingHeads(config, dtype=dtype)
        self.layers = (self.bert, self.cls)

    def encode(
        self,
        batch: dict[str, tf.Tensor],
        dropout_seed: tf.Tensor | None = None,
        positions: tf.Tensor | None = None,
    ) -> BertOutput:
        """Runs the encoder on input_ids, input_mask and segment_ids.

        Args:
          batch: as for `logits`; `masked_lm_positions` are not looked at.
          dropout_seed: int32 [2] when training; None = no dropout.
          positions: see `BertModel.call`.

        Returns:
          A `BertOutput`.
        """
        return self.bert(
            batch["input_ids"],
            batch["input_mask"],
            batch["segment_ids"],
            dropout_seed,
            positions,
        )

    def logits(
        self,
        batch: dict[str, tf.Tensor],
        dropout_seed: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Scores masked positions and the pair.

        Args:
          batch: int32 `input_ids`, `input_mask` (1 = real), `segment_ids`
            [B, S] and `masked_lm_positions` [B, P].
          dropout_seed: int32 [2] when training; None = no dropout.

        Returns:
          Masked-LM logits, float32 [B * P, V]; next-sentence logits,
          float32 [B, 2] (class 1 = the second part is a random one).
        """
        vectors, pooled = self._vectors(batch, dropout_seed)
        masked_lm = self.cls.predictions(vectors, self._table())
        return (
            tf.cast(masked_lm, tf.float32),
            self.cls.seq_relationship(pooled),
        )

    def _vectors(self, batch, dropout_seed):
        """Those of the masked positions, [B * P, H], and of the pairs."""
        output = self.encode(batch, dropout_seed, batch["masked_lm_positions"])
        # The first vector of each sequence is the pooler's.
        vectors = output.get_sequence_output()[:, 1:]
        return (
            tf.reshape(vectors, [-1, self.config.hidden_size]),
            output.pooled_output,
        )

    def _table(self):
        return tf.convert_to_tensor(self.bert.get_embedding_table())

    def loss_weights(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """What each loss is divided by; sums over the parts of a batch.

        Args:
          batch: needs `masked_lm_weights` and, of pairs,
            `next_sentence_labels`.

        Returns:
          Float32 scalars: number of masked wordpieces, number of pairs.
        """
        weights = {"masked_lm": tf.reduce_sum(batch["masked_lm_weights"])}
        if _LABELS in batch:
            weights["next_sentence"] = tf.cast(
                tf.size(batch[_LABELS]), tf.float32
            )
        return weights

    def losses(
        self,
        batch: dict[str, tf.Tensor],
        loss_weights: dict[str, tf.Tensor],
        dropout_seed: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """This batch's share of the loss, and its metrics.

        Args:
          batch: as for `logits`, with int32 `masked_lm_ids` [B, P], float32
            `masked_lm_weights` [B, P] (1 = predicted, 0 = filler) and, of
            pairs, int32 `next_sentence_labels` [B, 1] (1 = random).
          loss_weights: `loss_weights` of the whole batch that this one is a
            part of, so that the shares of all parts add up to its loss.
          dropout_seed: int32 [2] when training; None = no dropout.

        Returns:
          The loss share, float32 scalar; metrics (see `losses`):
          masked_lm_loss, masked_lm_accuracy and, of pairs,
          next_sentence_loss, next_sentence_accuracy.
        """
        vectors, pooled = self._vectors(batch, dropout_seed)
        masked_lm_ids = tf.reshape(batch["masked_lm_ids"], [-1])
        weights = tf.reshape(batch["masked_lm_weights"], [-1])
        masked_lm_losses, masked_lm_hits = tf.unstack(
            self.cls.predictions(vectors, self._table(), masked_lm_ids)
        )
        masked_lm_loss = losses.weighted(masked_lm_losses, weights)
        # The 1e-5 is the original's guard against a batch without masks.
        # Differs from the original: the sum of weights is over the whole
        # batch, not one replica's part of it, because then the number of
        # replicas and micro-batches does not change the result.
        loss = masked_lm_loss[0] / (loss_weights["masked_lm"] + 1e-5)
        metrics = {
            "masked_lm_accuracy": losses.weighted(masked_lm_hits, weights),
            "masked_lm_loss": masked_lm_loss,
        }
        if _LABELS in batch:
            pairs = self._next_sentence(pooled, batch[_LABELS])
            loss += (
                pairs["next_sentence_loss"][0] / loss_weights["next_sentence"]
            )
            metrics |= pairs
        return loss, metrics

    def _next_sentence(self, pooled, labels):
        """The metrics of the pairs."""
        logits = self.cls.seq_relationship(pooled)
        labels = tf.reshape(labels, [-1])
        ones = tf.ones(tf.shape(labels))
        return {
            "next_sentence_accuracy": losses.weighted(
                losses.hits(logits, labels), ones
            ),
            "next_sentence_loss": losses.weighted(
                losses.cross_entropy(logits, labels), ones
            ),
        }
