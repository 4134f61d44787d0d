"""Encoder with a small head, for every fine-tuning task.

Axis letters: see `layers`; L labels (choices, for multiple choice).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from data.text.packing import INPUTS
from modeling import heads, layers, losses, pooling
from modeling.bert import encoder_of
from modeling.bilstm import BiLSTM
from modeling.choices import HEADS, WORD_HEADS, require_one_of
from modeling.config import BertConfig
from modeling.kernels.seeds import split_seed
from modeling.layer_mix import LayerMix
from modeling.objectives.base import Batch, ItemObjective

# The original uses this rate in the head for all configurations.
HEAD_DROPOUT = 0.1


class _Kind(NamedTuple):
    """Loss, metric and predictions of one kind of task.

    Attributes:
      loss: maps logits and labels to the loss of each item, float32 [M].
      metric: name of the metric.
      score: maps logits and labels to the metric of each item, float32 [M].
      soft: maps logits, a teacher's logits and the temperature to the loss of
        each item, float32 [M].
      prediction: maps logits to probabilities or scores of the same shape.
    """

    loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    metric: str
    score: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    soft: Callable[[tf.Tensor, tf.Tensor, float], tf.Tensor]
    prediction: Callable[[tf.Tensor], tf.Tensor]


_ONE_OF_MANY = _Kind(
    losses.cross_entropy,
    "accuracy",
    losses.hits,
    losses.divergence,
    tf.nn.softmax,
)
_KINDS = {
    **dict.fromkeys(("classification", "choice", "tagging"), _ONE_OF_MANY),
    "regression": _Kind(
        losses.squared_error,
        "absolute_error",
        losses.absolute_error,
        lambda scores, teacher, _: losses.squared_error(scores, teacher),
        tf.identity,
    ),
    "multilabel": _Kind(
        losses.binary_cross_entropy,
        "accuracy",
        losses.binary_hits,
        losses.binary_divergence,
        tf.sigmoid,
    ),
}
KINDS = tuple(_KINDS)


class TaskModel(ItemObjective):
    """BERT for fine-tuning (section 4), or as a frozen encoder (section 5.3).

    | kind | the head reads | label_ids | predictions |
    | --- | --- | --- | --- |
    | classification | pooled [CLS] | int32 [B, 1] | probabilities [B, L] |
    | regression | pooled [CLS] | float32 [B, 1] | scores [B, 1] |
    | multilabel | pooled [CLS] | int32 [B, L], 0 or 1 | probabilities [B, L] |
    | choice | pooled [CLS] of each | int32 [B, 1] | probabilities [B, L] |
    | tagging | each token | int32 [B, S] | probabilities [B, S, L] |

    With the head `bilstm` (the paper's section 5.1, "+ BiLSTM") the linear
    layer reads the states of a `BiLSTM`: those at each token, or the last ones
    instead of the pooled [CLS]. With the head `mean` it reads the mean over the
    real tokens instead of the pooled [CLS].

    A batch holds int32 `input_ids`, `input_mask` (1 = real), `segment_ids`,
    [B, S] each ([B, L * S] for choice, one choice after the other),
    `label_ids`, `is_real_example` [B, 1] if some examples are fillers and, for
    tagging, `label_mask` [B, S] (1 = has a label). The logits are [B, L], for
    tagging [B, S, L].

    Args:
      config: the model's sizes.
      kind: one of `KINDS`.
      num_labels: L; 1 for regression.
      class_weights: weight of each label in the training loss, for
        classification and tagging; () = equal weights.
      head_dropout: dropout rate of the head's input.
      feature_based: the mix of layers, see `LayerMix`, that the head reads
        from a frozen encoder; "" = the encoder is trained, and the head reads
        its last layer.
      head: one of `HEADS`.
      **options: see `bert.encoder_of`, and `BertModel`.

    Attributes:
      metric: name of the metric beside the loss.
      class_weights: see the arguments.
      reads_pooler: see `ItemObjective`.

    Raises:
      ValueError: an unknown kind, or arguments that do not fit it.

    Source: `run_classifier.create_model`.
    """

    def __init__(
        self,
        config: BertConfig,
        kind: str,
        num_labels: int,
        *,
        class_weights: Sequence[float] = (),
        head_dropout: float = HEAD_DROPOUT,
        feature_based: str = "",
        head: str = "linear",
        **options: Any,
    ):
        _check(kind, num_labels, class_weights, feature_based, head)
        super().__init__(encoder_of(config, **options))
        self.kind = kind
        self.num_labels = num_labels
        self.metric = _KINDS[kind].metric
        self.feature_based = feature_based
        if feature_based:
            # A layer that is not trainable gets no gradient, slots or decay.
            self.bert.trainable = False
        self.mix = self.add(LayerMix, config, feature_based or "last")
        self.bilstm, size = None, self.mix.output_size
        if head == "bilstm":
            self.bilstm = self.add(BiLSTM, size, config.hidden_size)
            size = self.bilstm.output_size
        self.reads_pooler = head == "linear" and kind != "tagging"
        num_scores = 1 if kind == "choice" else num_labels
        self.head = self.add(
            heads.TaskOutput, num_scores, size, name="task_output"
        )
        self._head_dropout = head_dropout
        self.class_weights = tuple(class_weights)

    def logits(self, batch, dropout_seed=None):
        """Scores the labels; see `ItemObjective` and the class."""
        seeds = split_seed(dropout_seed, 3)
        inputs = [batch[name] for name in INPUTS]
        if self.kind == "choice":
            # [B, L * S] -> [B * L, S]
            shape = tf.shape(inputs[0]) * [self.num_labels, 1]
            shape //= [1, self.num_labels]
            inputs = [tf.reshape(x, shape) for x in inputs]
        words, text = self._encode(inputs, seeds[0], seeds[2])
        vectors = words if self.kind == "tagging" else text
        vectors = layers.dropout(vectors, self._head_dropout, seeds[1])
        logits = self.head(vectors)
        if self.kind == "choice":
            return tf.reshape(logits, [-1, self.num_labels])
        return logits

    def _encode(self, inputs, encoder_seed, bilstm_seed):
        """Returns a vector for each token, and one for the text."""
        if self.feature_based:
            output = self.bert(*inputs)
            output = tf.nest.map_structure(tf.stop_gradient, output)
        else:
            # For a whole text the linear head reads only the first wordpiece.
            positions = inputs[0][:, :0] if self.reads_pooler else None
            output = self.bert(*inputs, encoder_seed, positions)
        words = self.mix(output.embedding_output, output.all_encoder_layers)
        if self.bilstm:
            return self.bilstm(words, inputs[1], bilstm_seed)
        if self.reads_pooler or self.kind == "tagging":
            return words, output.pooled_output
        return words, pooling.pool_last(words, inputs[1], "mean")

    def predict(self, batch):
        """Returns probabilities, or scores for regression; see the class."""
        return _KINDS[self.kind].prediction(self.logits(batch))

    def score_examples(self, batch: Batch) -> Batch:
        """Predicts a batch and compares each example with its labels.

        Returns:
          `predictions`, see the class; and float32 [B] each: `loss`, without
          class weights, `score`, the metric, and `weight`. For tagging, these
          are sums over the labelled tokens of an example, and `weight` is their
          number. The weight of fillers is 0.
        """
        logits = self.logits(batch)
        weights = self.item_weights(batch)
        item_losses, scores = self.items(batch, logits)
        rows = [tf.shape(logits)[0], -1]

        def by_example(values):
            return tf.reduce_sum(tf.reshape(values, rows), axis=1)

        return {
            "predictions": _KINDS[self.kind].prediction(logits),
            "loss": by_example(item_losses * weights),
            "score": by_example(scores * weights),
            "weight": by_example(weights),
        }

    def items(self, batch, logits):
        """Returns loss and metric of each example, or of each token."""
        labels = batch["label_ids"]
        kind = _KINDS[self.kind]
        if kind is _ONE_OF_MANY:
            logits = tf.reshape(logits, [-1, self.num_labels])
            labels = tf.reshape(labels, [-1])
        return kind.loss(logits, labels), kind.score(logits, labels)

    def soft(self, batch, logits, teacher):
        """See `ItemObjective`."""
        rows = [tf.reshape(x, [-1, self.num_labels]) for x in (logits, teacher)]
        return _KINDS[self.kind].soft(*rows, self.distillation.temperature)

    def item_weights(self, batch):
        """Returns 1.0 for each item that counts, else 0.0; float32 [M]."""
        weights = super().item_weights(batch)
        if self.kind != "tagging":
            return weights
        is_labelled = tf.cast(batch["label_mask"], tf.float32)
        return tf.reshape(weights[:, tf.newaxis] * is_labelled, [-1])

    def training_weights(self, batch):
        """Returns `item_weights`, times the weights of the labels."""
        weights = self.item_weights(batch)
        if not self.class_weights:
            return weights
        table = tf.constant(self.class_weights, tf.float32)
        return weights * tf.gather(table, tf.reshape(batch["label_ids"], [-1]))


def _check(kind, num_labels, class_weights, feature_based, head):
    """Raises ValueError for arguments that do not fit each other."""
    require_one_of(KINDS, "kind of task", kind)
    least = 1 if kind in ("regression", "multilabel") else 2
    if num_labels < least or (kind == "regression" and num_labels != 1):
        raise ValueError(
            f"a {kind} task with {num_labels} labels; it must have "
            f"{'1' if kind == 'regression' else f'{least} or more'}. Give the "
            "kind of its labels, or a table with rows of each, or name them."
        )
    are_right = kind in ("classification", "tagging")
    are_right &= all(0 < weight < math.inf for weight in class_weights)
    if class_weights and not (are_right and len(class_weights) == num_labels):
        raise ValueError(
            f"class weights {list(class_weights)} of a {kind} task; give "
            f"{num_labels} above 0, for classification and tagging alone."
        )
    # Tagging labels each token, but the head `mean` has one vector for a text.
    known = WORD_HEADS if kind == "tagging" else HEADS
    require_one_of(known, f"a {kind} task with the head", head)
    if feature_based and head == "linear" and kind != "tagging":
        raise ValueError(
            "a frozen encoder has a vector for each token, but the linear head "
            f"of a {kind} task reads one for the text; take bilstm or mean."
        )


MODEL = TaskModel
