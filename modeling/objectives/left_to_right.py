"""Encoder and vocabulary head that predict every next wordpiece.

Axis letters: see `layers`; P positions of a sequence whose next wordpiece is
predicted.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from modeling import heads, losses
from modeling.bert import encoder_of
from modeling.config import BertConfig
from modeling.kernels.seeds import split_seed, uniform
from modeling.objectives.base import PretrainingObjective


class LeftToRightModel(PretrainingObjective):
    """A left-to-right language model (section 5.1, "LTR & No NSP").

    Every wordpiece after the first, [SEP] included, is predicted from those
    before it. A batch holds int32 `input_ids`, `input_mask` (1 = real) and
    `segment_ids`, [B, S] each. Real wordpieces come first in each row.

    Args:
      config: the model's sizes. Its `left_to_right` is taken as true.
      num_predicted_positions: P in training, drawn at random in each step; 0 =
        all positions. Evaluation always predicts all.
      **options: see `bert.encoder_of`, and `BertModel`.
    """

    pairs = False
    head_variables = {"left-to-right LM": ("cls/predictions/",)}

    def __init__(
        self,
        config: BertConfig,
        *,
        num_predicted_positions: int = 0,
        **options: Any,
    ):
        super().__init__(encoder_of(self.configure(config), **options))
        self.cls = self.add(heads.LanguageModelHead, self.config)
        self._num_drawn = num_predicted_positions

    @classmethod
    def configure(cls, config):
        """Returns the configuration with left-to-right attention."""
        config = super().configure(config)
        return dataclasses.replace(config, left_to_right=True)

    def loss_weights(self, batch):
        """Counts predictions at `all` positions and at `drawn` ones."""
        in_rows = tf.reduce_sum(_has_next(batch), axis=1)
        drawn = in_rows
        if self._num_drawn:
            drawn = tf.minimum(in_rows, float(self._num_drawn))
        return {"all": tf.reduce_sum(in_rows), "drawn": tf.reduce_sum(drawn)}

    def losses(self, batch, loss_weights, dropout_seed=None):
        """Computes the mean cross entropy of the next wordpieces.

        Without a `dropout_seed`, all positions are predicted. The metrics are
        next_token_loss and next_token_accuracy.
        """
        seeds = split_seed(dropout_seed, 2)
        labels, weights = batch["input_ids"][:, 1:], _has_next(batch)
        is_drawn = bool(self._num_drawn) and dropout_seed is not None
        if is_drawn:
            positions = self._draw(batch, seeds[1])
            output = self.encode(batch, seeds[0], positions)
            vectors = output.get_sequence_output()[:, 1:]
            labels = tf.gather(labels, positions, batch_dims=1)
            weights = tf.gather(weights, positions, batch_dims=1)
        else:
            vectors = self.encode(batch, seeds[0]).get_sequence_output()[:, :-1]
        weights = tf.reshape(weights, [-1])
        table = tf.convert_to_tensor(self.bert.get_embedding_table())
        labels = tf.reshape(labels, [-1])
        found = self.cls.predictions(vectors, table, labels, in_parts=True)
        item_losses, hits = tf.unstack(found)
        metrics = losses.metrics("next_token", item_losses, hits, weights)
        total = loss_weights["drawn" if is_drawn else "all"]
        loss = tf.math.divide_no_nan(metrics["next_token_loss"][0], total)
        return loss, metrics

    def _draw(self, batch, seed):
        """Draws P positions of each row without replacement: int32 [B, P].

        Positions without a next wordpiece come last.
        """
        has_next = _has_next(batch)
        scores = uniform(tf.shape(has_next), seed)
        count = tf.minimum(self._num_drawn, tf.shape(has_next)[1])
        return tf.math.top_k(tf.where(has_next > 0, scores, -1.0), count)[1]

    def further_results(self, metrics):
        """Returns the perplexity, exp of the mean loss of a wordpiece."""
        loss = tf.constant(metrics["next_token_loss"], tf.float64)
        return {"perplexity": float(tf.exp(loss))}


def _has_next(batch):
    """Returns 1.0 where the next wordpiece is a target: [B, S - 1].

    Padding is no target, nor is the first wordpiece of another document.
    """
    real = tf.cast(batch["input_mask"][:, 1:], tf.float32)
    if "document_ids" not in batch:
        return real
    numbers = batch["document_ids"]
    return real * tf.cast(numbers[:, 1:] == numbers[:, :-1], tf.float32)


MODEL = LeftToRightModel
