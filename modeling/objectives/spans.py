"""Encoder + a start and an end score of every wordpiece: questions answered.

Axis letters: see `layers`.
"""

import tensorflow as tf

from modeling import heads, losses
from modeling.bert import BertModel
from modeling.config import BertConfig

# In place of a padding wordpiece's score: exp of it is 0.
_NEVER = -1e9


class SpanModel:
    """BERT that marks an answer in a text (the paper's sections 4.2, 4.3).

    It has the methods of `TaskModel`. A batch holds int32 `input_ids`,
    `input_mask` (1 = real), `segment_ids`, [B, S] each; for the loss
    `start_positions` and `end_positions` [B, 1] (0, the place of [CLS] = the
    window holds no answer); `is_real_example` [B, 1] (0 = filler, counts
    nowhere), without which all are real.

    Args:
      config: the model's sizes.
      score_padding: let padding compete in the softmax of the loss, as the
        original. Such batches must not be trimmed: each place of padding has
        a score of its own, so that a shorter batch has another loss.
      dtype: `float32`, `mixed_bfloat16` or `mixed_float16`.
      use_one_hot_embeddings: see `embeddings.Embeddings`.
      gradient_checkpointing: see `transformer.Encoder`.
      whole_last_layer: see there; the head reads every position anyhow.

    Attributes:
      metric: name of the metric beside the loss: the share of windows with
        both ends right.

    Source: `run_squad.create_model`, `run_squad.model_fn_builder`.
    """

    metric = "accuracy"

    def __init__(
        self,
        config: BertConfig,
        *,
        score_padding: bool = False,
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
        self.head = heads.SpanHead(config.hidden_size, dtype=dtype)
        self.layers = (self.bert, self.head)
        self._score_padding = score_padding

    def logits(
        self,
        batch: dict[str, tf.Tensor],
        dropout_seed: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Scores every wordpiece, those of question and padding too.

        Args:
          batch: the class says what it holds; positions are not looked at.
          dropout_seed: int32 [2] when training; None = no dropout.

        Returns:
          Float32 [B, S, 2]: as start, as end.
        """
        output = self.bert(
            batch["input_ids"],
            batch["input_mask"],
            batch["segment_ids"],
            dropout_seed,
        )
        # A matrix, [B * S, H]: see layers.Dense.
        rows = tf.reshape(
            output.get_sequence_output(), [-1, self.config.hidden_size]
        )
        shape = tf.concat([tf.shape(batch["input_ids"]), [2]], axis=0)
        return tf.reshape(self.head(rows), shape)

    def predict(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """The scores; see `logits`."""
        return self.logits(batch)

    def loss_weights(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """What the loss is divided by; sums over the parts of a batch.

        Args:
          batch: the class says what it holds.

        Returns:
          Float32 scalar: number of real examples.
        """
        return {"loss": tf.reduce_sum(_weights(batch))}

    def losses(
        self,
        batch: dict[str, tf.Tensor],
        loss_weights: dict[str, tf.Tensor],
        dropout_seed: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """This batch's share of the loss, and its metrics.

        Args:
          batch: the class says what it holds.
          loss_weights: `loss_weights` of the whole batch that this one is a
            part of, so that the shares of all parts add up to its loss.
          dropout_seed: int32 [2] when training; None = no dropout.

        Returns:
          The loss share, float32 scalar; the metric (see `losses`).
        """
        weights = _weights(batch)
        item_losses, scores = self._items(
            batch, self.logits(batch, dropout_seed)
        )
        loss = tf.math.divide_no_nan(
            tf.reduce_sum(item_losses * weights), loss_weights["loss"]
        )
        return loss, {self.metric: losses.weighted(scores, weights)}

    def score_examples(
        self, batch: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Scores a batch for `predictions.Scorer.outputs`.

        Args:
          batch: the class says what it holds.

        Returns:
          `predictions`, the scores; `num_tokens` int32 [B], wordpieces before
          the padding.
        """
        return {
            "predictions": self.logits(batch),
            "num_tokens": tf.reduce_sum(batch["input_mask"], axis=1),
        }

    def _items(self, batch, logits):
        """Loss and metric of each example, float32 [B] both."""
        if not self._score_padding:
            # Differs from the original: padding takes no part in the softmax,
            # because then a batch cut to its longest example has the same
            # loss and gradient. There, a window of 160 wordpieces in 384
            # places has 224 wrong answers more that no prediction can give.
            real = batch["input_mask"][:, :, tf.newaxis] > 0
            logits = tf.where(real, logits, _NEVER)
        start, end = tf.unstack(logits, axis=2)
        ends = (
            (start, batch["start_positions"][:, 0]),
            (end, batch["end_positions"][:, 0]),
        )
        start_loss, end_loss = (losses.cross_entropy(*x) for x in ends)
        start_hits, end_hits = (losses.hits(*x) for x in ends)
        return (start_loss + end_loss) / 2.0, start_hits * end_hits


def _weights(batch):
    """1.0 for each example that counts, float32 [B]."""
    if "is_real_example" in batch:
        return tf.cast(batch["is_real_example"][:, 0], tf.float32)
    return tf.ones(tf.shape(batch["input_ids"])[:1])
