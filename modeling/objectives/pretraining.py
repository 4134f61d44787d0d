"""Encoder and both pretraining heads: batch in, loss and metrics out."""

from typing import Any

import tensorflow as tf

from modeling import checkpoints, heads, losses
from modeling.bert import encoder_of
from modeling.config import BertConfig
from modeling.objectives.base import Batch, PretrainingObjective

_LABELS = "next_sentence_labels"


class PretrainingModel(PretrainingObjective):
    """BERT for pretraining: masked LM and next sentence (section 3.1).

    Batches without `next_sentence_labels` have no pairs of sentences; they
    train masked LM only. For the arguments see `BertModel`.

    Source: `run_pretraining.model_fn_builder`.
    """

    reads_masks = True
    answers_queries = True
    head_variables = {
        "masked LM": ("cls/predictions/",),
        "next sentence": ("cls/seq_relationship/", "bert/pooler/"),
    }

    def __init__(self, config: BertConfig, **options: Any):
        super().__init__(encoder_of(config, **options))
        self.cls = self.add(heads.PretrainingHeads, config)

    def trained_heads(self) -> list[str]:
        """Returns which heads of `head_variables` have been trained."""
        variables = checkpoints.variables_by_name(self.layers)
        trained = []
        for head, beginnings in self.head_variables.items():
            names = [n for n in variables if n.startswith(beginnings)]
            biases = [variables[n] for n in names if n.endswith("bias")]
            # A bias is exactly 0 until the first update.
            if all(bias.numpy().any() for bias in biases):
                trained.append(head)
        return trained

    def logits(
        self, batch: Batch, dropout_seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Scores the vocabulary at the masked positions, and the pair.

        The batch is as for `encode`, with int32 `masked_lm_positions` [B, P].
        Returns masked-LM logits, float32 [B * P, V], and next-sentence logits,
        float32 [B, 2] (class 1 = the second part is a random one).
        """
        vectors, pooled = self._vectors(batch, dropout_seed)
        masked_lm = self.cls.predictions(vectors, self._table())
        pair = self.cls.seq_relationship(pooled)
        return tf.cast(masked_lm, tf.float32), pair

    def _vectors(self, batch, dropout_seed):
        """Returns the vectors of masked positions [B * P, H] and pairs."""
        output = self.encode(batch, dropout_seed, batch["masked_lm_positions"])
        # The pooler reads the first vector of each sequence.
        vectors = output.get_sequence_output()[:, 1:]
        vectors = tf.reshape(vectors, [-1, self.config.hidden_size])
        return vectors, output.pooled_output

    def _table(self):
        return tf.convert_to_tensor(self.bert.get_embedding_table())

    def loss_weights(self, batch):
        """Counts masked wordpieces and pairs, if there are pairs."""
        weights = {"masked_lm": tf.reduce_sum(batch["masked_lm_weights"])}
        if _LABELS in batch:
            num_pairs = tf.size(batch[_LABELS])
            weights["next_sentence"] = tf.cast(num_pairs, tf.float32)
        return weights

    def losses(self, batch, loss_weights, dropout_seed=None):
        """Adds the means of both losses; see `Objective`.

        The batch is as for `logits`, with int32 `masked_lm_ids` [B, P], float32
        `masked_lm_weights` [B, P] (1 = predicted, 0 = filler) and, if there are
        pairs, int32 `next_sentence_labels` [B, 1] (1 = random). The metrics are
        masked_lm_loss, masked_lm_accuracy and, if there are pairs,
        next_sentence_loss, next_sentence_accuracy.
        """
        vectors, pooled = self._vectors(batch, dropout_seed)
        weights = tf.reshape(batch["masked_lm_weights"], [-1])
        labels = tf.reshape(batch["masked_lm_ids"], [-1])
        found = self.cls.predictions(vectors, self._table(), labels)
        item_losses, hits = tf.unstack(found)
        metrics = losses.metrics("masked_lm", item_losses, hits, weights)
        # The original adds 1e-5 for batches without masked positions.
        # Differs from the original: the sum of weights is over the whole
        # batch, not one replica's part of it, because then the number of
        # replicas and micro-batches does not change the result.
        total = loss_weights["masked_lm"] + 1e-5
        loss = metrics["masked_lm_loss"][0] / total
        if _LABELS in batch:
            logits = self.cls.seq_relationship(pooled)
            labels = tf.reshape(batch[_LABELS], [-1])
            item_losses = losses.cross_entropy(logits, labels)
            hits, ones = losses.hits(logits, labels), tf.ones(tf.shape(labels))
            metrics |= losses.metrics("next_sentence", item_losses, hits, ones)
            total = loss_weights["next_sentence"]
            loss += metrics["next_sentence_loss"][0] / total
        return loss, metrics


MODEL = PretrainingModel
