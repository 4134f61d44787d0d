"""Encoder with a start and an end score of every wordpiece, for questions.

Axis letters: see `layers`.
"""

from typing import Any

import tensorflow as tf

from modeling import heads, losses
from modeling.bert import encoder_of
from modeling.bilstm import BiLSTM
from modeling.choices import WORD_HEADS, require_one_of
from modeling.config import BertConfig
from modeling.kernels.seeds import split_seed
from modeling.objectives.base import Batch, ItemObjective

# Replaces the score of padding: its exp is 0.
_NEVER = -1e9


class SpanModel(ItemObjective):
    """BERT for extractive question answering (the paper's sections 4.2, 4.3).

    A batch holds int32 `input_ids`, `input_mask` (1 = real), `segment_ids`,
    [B, S] each; `start_positions` and `end_positions` [B, 1] for the loss (0,
    the position of [CLS], if the window has no answer); and `is_real_example`
    [B, 1] if some examples are fillers. The logits are [B, S, 2], the scores
    as start and as end, also of question and padding.

    With the head `bilstm` (the paper's section 5.1, "+ BiLSTM") a `BiLSTM`
    reads the encoder's output first.

    Args:
      config: the model's sizes.
      score_padding: include padding in the softmax of the loss, as the
        original. Do not trim such batches: the loss depends on the number of
        padding positions.
      head: one of `WORD_HEADS`.
      **options: see `bert.encoder_of`, and `BertModel`.

    Attributes:
      metric: the share of windows with both ends right.

    Raises:
      ValueError: the head is unknown.

    Source: `run_squad.create_model`, `run_squad.model_fn_builder`.
    """

    metric = "accuracy"

    def __init__(
        self,
        config: BertConfig,
        *,
        score_padding: bool = False,
        head: str = "linear",
        **options: Any,
    ):
        require_one_of(WORD_HEADS, "head", head)
        super().__init__(encoder_of(config, **options))
        self.bilstm, size = None, config.hidden_size
        if head == "bilstm":
            self.bilstm = self.add(BiLSTM, size, size)
            size = self.bilstm.output_size
        self.head = self.add(heads.SpanHead, size)
        self._score_padding = score_padding

    def logits(self, batch, dropout_seed=None):
        """Scores every wordpiece; see `ItemObjective` and the class."""
        seeds = split_seed(dropout_seed, 2) if self.bilstm else [dropout_seed]
        words = self.encode(batch, seeds[0]).get_sequence_output()
        if self.bilstm:
            words, _ = self.bilstm(words, batch["input_mask"], seeds[1])
        return self.head(words)

    def score_examples(self, batch: Batch) -> Batch:
        """Scores a batch for `OutputCollector` of training/inference.

        Returns `predictions`, the logits; `num_tokens` int32 [B], the number of
        wordpieces before the padding.
        """
        return {
            "predictions": self.logits(batch),
            "num_tokens": tf.reduce_sum(batch["input_mask"], axis=1),
        }

    def items(self, batch, logits):
        """Returns the mean loss of both ends, and whether both are right."""
        start, end = tf.unstack(self._scored(batch, logits), axis=2)
        ends = (
            (start, batch["start_positions"][:, 0]),
            (end, batch["end_positions"][:, 0]),
        )
        start_loss, end_loss = (losses.cross_entropy(*x) for x in ends)
        start_hits, end_hits = (losses.hits(*x) for x in ends)
        return (start_loss + end_loss) / 2.0, start_hits * end_hits

    def soft(self, batch, logits, teacher):
        """See `ItemObjective`; the mean of both ends."""
        ends = (
            tf.transpose(self._scored(batch, x), [0, 2, 1])
            for x in (logits, teacher)
        )
        soft = losses.divergence(*ends, self.distillation.temperature)
        return tf.reduce_mean(soft, axis=1)

    def _scored(self, batch, logits):
        """The logits as the softmax takes them: without padding."""
        if self._score_padding:
            return logits
        # Differs from the original: padding takes no part in the softmax,
        # because then a batch cut to its longest example has the same
        # loss and gradient. There, a window of 160 wordpieces in 384
        # places has 224 wrong answers more that no prediction can give.
        real = batch["input_mask"][:, :, tf.newaxis] > 0
        return tf.where(real, logits, _NEVER)


MODEL = SpanModel
