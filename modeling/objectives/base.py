"""Base classes of the objectives: encoder, heads, weighted losses.

A method that overrides another one has its types.
"""

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
import tensorflow as tf

from modeling import losses
from modeling.attention import within_documents
from modeling.config import BertConfig

Batch = dict[str, tf.Tensor]


class Objective(abc.ABC):
    """An encoder, the layers on top of it, and the loss that trains them.

    A training loop uses `layers`, `loss_weights` and `losses`.

    Args:
      bert: the encoder, a `BertModel`.

    Attributes:
      bert: the encoder.
      config: the encoder's configuration.
      layers: the encoder and what is on top of it.
    """

    def __init__(self, bert: keras.layers.Layer):
        self.bert = bert
        self.config = bert.config
        self.layers = (bert,)

    def add(
        self, layer_class: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        """Creates a layer of the encoder's dtype on top, and returns it."""
        options = {"dtype": self.bert.dtype_policy, **options}
        layer = layer_class(*args, **options)
        self.layers += (layer,)
        return layer

    def encode(
        self,
        batch: Batch,
        dropout_seed: tf.Tensor | None = None,
        positions: tf.Tensor | None = None,
        bert: keras.layers.Layer | None = None,
    ) -> Any:
        """Runs an encoder on input_ids, input_mask and segment_ids.

        Args:
          batch: int32 `input_ids`, `input_mask` (1 = real, 0 = padding) and
            `segment_ids`, [B, S] each; and `document_ids` if wordpieces attend
            only to those of their own document.
          dropout_seed: int32 [2] when training; None = no dropout.
          positions: see `BertModel.call`.
          bert: another encoder; None = the objective's.

        Returns:
          A `BertOutput`.
        """
        input_mask = batch["input_mask"]
        if "document_ids" in batch:
            input_mask = within_documents(input_mask, batch["document_ids"])
        inputs = batch["input_ids"], input_mask, batch["segment_ids"]
        return (bert or self.bert)(*inputs, dropout_seed, positions)

    @abc.abstractmethod
    def loss_weights(self, batch: Batch) -> Batch:
        """Computes the divisor of each loss: float32 scalars by its name.

        It is a sum over the batch, so that those of all parts add up.
        """

    @abc.abstractmethod
    def losses(
        self,
        batch: Batch,
        loss_weights: Batch,
        dropout_seed: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, Batch]:
        """Computes the loss and the metrics of a batch, or of a part of it.

        Args:
          batch: inputs and labels; see the class.
          loss_weights: `loss_weights` of the whole batch, so that the losses
            of all parts add up to the loss of the batch.
          dropout_seed: int32 [2] when training; None = no dropout.

        Returns:
          The loss, float32 scalar; metrics by name, float32 [2] each (see
          `modeling.losses`).
        """


class PretrainingObjective(Objective):
    """An objective of run_pretraining.py, which finds it by its name.

    The program calls the class with the configuration, the options of
    `BertModel`, and the objective's own flags, all but the first by name.

    Attributes:
      reads_masks: whether batches have `masked_lm_positions`, `masked_lm_ids`
        and `masked_lm_weights`.
      pairs: True = it needs records of sentence pairs, False = it needs records
        without pairs, None = it takes both.
      draws_inputs: whether each step draws what it reads or predicts (masks).
      answers_queries: whether it has the `logits` of `PretrainingModel`, which
        predictions and exports need.
      head_variables: name of each head, in words -> beginnings of the names of
        its variables, which evaluations and answers need. `next sentence` is
        needed for pairs alone.
    """

    reads_masks: ClassVar[bool] = False
    pairs: ClassVar[bool | None] = None
    draws_inputs: ClassVar[bool] = False
    answers_queries: ClassVar[bool] = False
    head_variables: ClassVar[Mapping[str, tuple[str, ...]]] = {"weights": ("",)}

    @classmethod
    def configure(cls, config: BertConfig) -> BertConfig:
        """Returns the configuration to train from --bert_config_file's.

        Raises ValueError for a model that the objective does not train.
        """
        if config.electra:
            raise ValueError(
                'the configuration is that of an ELECTRA ("electra": true), '
                "which --objective=replaced_tokens trains; give this "
                "objective, or the configuration of a BERT "
                "(--bert_config_file)."
            )
        return config

    def further_results(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns results that follow from an evaluation's means of metrics."""
        return {}


class ItemObjective(Objective):
    """An objective with one loss and one metric for each item.

    An item is an example, or a token of it. `is_real_example` [B, 1] of a batch
    is 1 for real examples, and 0 for those that only fill the batch and count
    nowhere. Without it, all examples are real.

    Attributes:
      metric: name of the metric.
      reads_pooler: whether the head reads the pooled [CLS].
      distillation: how it learns from a teacher; None = from labels alone. A
        batch then has the teacher's logits as float32 `teacher_logits` [B, L],
        or [B, S * L], and `is_labeled` [B, 1] (0 = the labels do not count).
    """

    metric: str
    reads_pooler = False
    distillation: losses.Distillation | None = None

    @abc.abstractmethod
    def logits(
        self, batch: Batch, dropout_seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Scores a batch, whose labels are not used; see the class."""

    @abc.abstractmethod
    def items(
        self, batch: Batch, logits: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns loss and metric of each of the M items, float32 [M] each."""

    def soft(self, batch: Batch, logits: tf.Tensor, teacher: tf.Tensor):
        """Returns the distillation loss of each of the M items, [M]."""
        raise NotImplementedError(f"{type(self).__name__} has no teacher.")

    def predict(self, batch: Batch) -> tf.Tensor:
        """Returns the logits as predictions, in the same shape."""
        return self.logits(batch)

    def item_weights(self, batch: Batch) -> tf.Tensor:
        """Returns 1.0 for each item that counts, else 0.0; float32 [M]."""
        if "is_real_example" in batch:
            return tf.cast(batch["is_real_example"][:, 0], tf.float32)
        return tf.ones(tf.shape(batch["input_ids"])[:1])

    def training_weights(self, batch: Batch) -> tf.Tensor:
        """Returns the weight of each item in the loss, float32 [M]."""
        return self.item_weights(batch)

    def loss_weights(self, batch):
        """Returns the sum of `training_weights`; see `Objective`."""
        return {"loss": tf.reduce_sum(self.training_weights(batch))}

    def losses(self, batch, loss_weights, dropout_seed=None):
        """Returns the weighted mean of the losses; see `Objective`."""
        logits = self.logits(batch, dropout_seed)
        item_losses, scores = self.items(batch, logits)
        counts = self.item_weights(batch)
        if self.distillation:
            labeled = batch | {"is_real_example": batch["is_labeled"]}
            counts *= self.item_weights(labeled)
            share = self.distillation.weight
            item_losses *= (1 - share) * counts
            teacher = tf.reshape(batch["teacher_logits"], tf.shape(logits))
            item_losses += share * self.soft(batch, logits, teacher)
        # A batch of tagged sentences may have no label.
        total = tf.reduce_sum(item_losses * self.training_weights(batch))
        loss = tf.math.divide_no_nan(total, loss_weights["loss"])
        return loss, {self.metric: losses.weighted(scores, counts)}
