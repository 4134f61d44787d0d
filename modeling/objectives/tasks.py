"""Encoder + a small head: the model of every fine-tuning task.

Axis letters: see `layers`; L labels (choices, for multiple choice).
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from modeling import heads, layers, losses
from modeling.bert import BertModel
from modeling.bilstm import BiLSTM
from modeling.choices import HEADS
from modeling.config import BertConfig
from modeling.layer_mix import LayerMix

# Of the head, whatever the configuration says, as the original.
HEAD_DROPOUT = 0.1


class _Kind(NamedTuple):
    """What one kind of task makes of its logits.

    Attributes:
      loss: logits and labels to a loss for each item, float32 [M].
      metric: name of what is watched beside the loss.
      score: logits and labels to the metric of each item, float32 [M].
      prediction: logits to probabilities or scores, of the same shape.
    """

    loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    metric: str
    score: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    prediction: Callable[[tf.Tensor], tf.Tensor]


_ONE_OF_MANY = _Kind(
    losses.cross_entropy, "accuracy", losses.hits, tf.nn.softmax
)
_KINDS = {
    "classification": _ONE_OF_MANY,
    "choice": _ONE_OF_MANY,
    "tagging": _ONE_OF_MANY,
    "regression": _Kind(
        losses.squared_error,
        "absolute_error",
        losses.absolute_error,
        tf.identity,
    ),
    "multilabel": _Kind(
        losses.binary_cross_entropy,
        "accuracy",
        losses.binary_hits,
        tf.sigmoid,
    ),
}
KINDS = tuple(_KINDS)


class TaskModel:
    """BERT as it is fine-tuned (section 4), or read as it is (section 5.3).

    | kind | the head sees | label_ids | predictions |
    | --- | --- | --- | --- |
    | classification | pooled [CLS] | int32 [B, 1] | probabilities [B, L] |
    | regression | pooled [CLS] | float32 [B, 1] | scores [B, 1] |
    | multilabel | pooled [CLS] | int32 [B, L], 0 or 1 | probabilities [B, L] |
    | choice | pooled [CLS] of each | int32 [B, 1] | probabilities [B, L] |
    | tagging | each token | int32 [B, S] | probabilities [B, S, L] |

    With the head `bilstm` (the paper's section 5.1, "+ BiLSTM") a `BiLSTM`
    stands before the linear layer, which sees its states at each token, or
    its last ones in place of the pooled [CLS].

    A batch holds int32 `input_ids`, `input_mask` (1 = real), `segment_ids`,
    [B, S] each ([B, L * S] for choice, one choice after the other),
    `label_ids`, `is_real_example` [B, 1] (0 = filler, counts nowhere) and,
    for tagging, `label_mask` [B, S] (1 = has a label).

    Args:
      config: the model's sizes.
      kind: one of `KINDS`.
      num_labels: L; 1 for regression.
      dtype: `float32`, `mixed_bfloat16` or `mixed_float16`.
      use_one_hot_embeddings: see `embeddings.Embeddings`.
      gradient_checkpointing: see `transformer.Encoder`.
      whole_last_layer: see `transformer.Encoder`.
      class_weights: weight of each label in the training loss, for
        classification and tagging; () = all alike.
      head_dropout: share of the head's input set to 0 in training.
      feature_based: the mix of layers, see `LayerMix`, that the head reads
        from a frozen encoder; "" = all is trained, and the last layer read.
      head: one of `HEADS`.

    Attributes:
      metric: name of the metric beside the loss.

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
        dtype: str = "float32",
        use_one_hot_embeddings: bool = False,
        gradient_checkpointing: bool = False,
        whole_last_layer: bool = False,
        class_weights: Sequence[float] = (),
        head_dropout: float = HEAD_DROPOUT,
        feature_based: str = "",
        head: str = "linear",
    ):
        _check(kind, num_labels, class_weights)
        _check_head(kind, feature_based, head)
        self.config = config
        self.kind = kind
        self.num_labels = num_labels
        self.metric = _KINDS[kind].metric
        self.bert = BertModel(
            config,
            dtype=dtype,
            use_one_hot_embeddings=use_one_hot_embeddings,
            gradient_checkpointing=gradient_checkpointing,
            whole_last_layer=whole_last_layer,
        )
        self.feature_based = feature_based
        # A layer that is not trainable gets no gradient, slots or decay.
        self.bert.trainable = not feature_based
        self.mix = LayerMix(config, feature_based or "last", dtype=dtype)
        self.bilstm = None
        size = self.mix.output_size
        if head == "bilstm":
            self.bilstm = BiLSTM(size, config.hidden_size, dtype=dtype)
            size = self.bilstm.output_size
        self.head = heads.TaskOutput(
            1 if kind == "choice" else num_labels,
            size,
            name="task_output",
            dtype=dtype,
        )
        between = (self.bilstm,) if self.bilstm else ()
        self.layers = (self.bert, self.mix, *between, self.head)
        self._head_dropout = head_dropout
        self._class_weights = tuple(class_weights)

    def logits(
        self,
        batch: dict[str, tf.Tensor],
        dropout_seed: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Scores a batch.

        Args:
          batch: the class says what it holds; labels are not looked at.
          dropout_seed: int32 [2] when training; None = no dropout.

        Returns:
          Float32 [B, L], for tagging [B, S, L].
        """
        seeds = layers.split_seed(dropout_seed, 3)
        inputs = [
            batch[name] for name in ("input_ids", "input_mask", "segment_ids")
        ]
        if self.kind == "choice":
            # [B, L * S] -> [B * L, S]
            shape = tf.shape(inputs[0]) * [self.num_labels, 1]
            shape //= [1, self.num_labels]
            inputs = [tf.reshape(x, shape) for x in inputs]
        words, text = self._encode(inputs, seeds[0], seeds[2])
        if self.kind == "tagging":
            # A matrix, [B * S, H]: see layers.Dense.
            vectors = tf.reshape(words, [-1, words.shape[-1]])
            shape = tf.concat([tf.shape(inputs[0]), [self.num_labels]], axis=0)
        else:
            vectors = text
            shape = [-1, self.num_labels]
        vectors = layers.dropout(vectors, self._head_dropout, seeds[1])
        return tf.reshape(self.head(vectors), shape)

    def _encode(self, inputs, encoder_seed, bilstm_seed):
        """A vector for each token that is read, and one for the text."""
        if self.feature_based:
            output = self.bert(*inputs)
            output = tf.nest.map_structure(tf.stop_gradient, output)
        else:
            # Of a text the linear head reads the first wordpiece alone.
            reads_words = self.bilstm or self.kind == "tagging"
            positions = None if reads_words else inputs[0][:, :0]
            output = self.bert(*inputs, encoder_seed, positions)
        words = self.mix(output.embedding_output, output.all_encoder_layers)
        if not self.bilstm:
            return words, output.pooled_output
        return self.bilstm(words, inputs[1], bilstm_seed)

    def predict(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Probabilities, or scores for regression; shaped as `logits`."""
        return _KINDS[self.kind].prediction(self.logits(batch))

    def loss_weights(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """What the loss is divided by; sums over the parts of a batch.

        Args:
          batch: needs `label_ids`, `is_real_example` and `label_mask`, if any.

        Returns:
          Float32 scalar: number of real examples, of labelled tokens for
          tagging; each counted with its label's weight.
        """
        return {"loss": tf.reduce_sum(self._training_weights(batch))}

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
        item_losses, scores = self._items(
            batch, self.logits(batch, dropout_seed)
        )
        # A part, or a whole batch of tagged sentences, may have no label.
        loss = tf.math.divide_no_nan(
            tf.reduce_sum(item_losses * self._training_weights(batch)),
            loss_weights["loss"],
        )
        metric = losses.weighted(scores, self._weights(batch))
        return loss, {self.metric: metric}

    def score_examples(
        self, batch: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Predicts a batch and compares it with its labels, example by example.

        Args:
          batch: the class says what it holds.

        Returns:
          `predictions`, see the class; and float32 [B] each: `loss`, without
          class weights, `score`, the metric (both sums over an example's
          labelled tokens, for tagging), and `weight`, the number of them:
          0 for fillers.
        """
        logits = self.logits(batch)
        weights = self._weights(batch)
        item_losses, scores = self._items(batch, logits)
        rows = [tf.shape(logits)[0], -1]

        def by_example(values):
            return tf.reduce_sum(tf.reshape(values, rows), axis=1)

        return {
            "predictions": _KINDS[self.kind].prediction(logits),
            "loss": by_example(item_losses * weights),
            "score": by_example(scores * weights),
            "weight": by_example(weights),
        }

    def _items(self, batch, logits):
        """Loss and metric of each item, float32 [M] both."""
        labels = batch["label_ids"]
        if _KINDS[self.kind] is _ONE_OF_MANY:
            logits = tf.reshape(logits, [-1, self.num_labels])
            labels = tf.reshape(labels, [-1])
        kind = _KINDS[self.kind]
        return kind.loss(logits, labels), kind.score(logits, labels)

    def _weights(self, batch):
        """1.0 for each item that counts, float32 [M]."""
        weights = tf.cast(batch["is_real_example"], tf.float32)
        if self.kind == "tagging":
            weights *= tf.cast(batch["label_mask"], tf.float32)
        return tf.reshape(weights, [-1])

    def _training_weights(self, batch):
        """The same with the weights of the labels."""
        weights = self._weights(batch)
        if not self._class_weights:
            return weights
        table = tf.constant(self._class_weights, tf.float32)
        return weights * tf.gather(table, tf.reshape(batch["label_ids"], [-1]))


def _check(kind, num_labels, class_weights):
    """Refuses what makes no model."""
    if kind not in KINDS:
        raise ValueError(
            f"kind of task {kind!r}; it must be one of {', '.join(KINDS)}."
        )
    least = 1 if kind in ("regression", "multilabel") else 2
    if num_labels < least or (kind == "regression" and num_labels != 1):
        raise ValueError(
            f"a {kind} task with {num_labels} labels; it must have "
            f"{'1' if kind == 'regression' else f'{least} or more'}."
        )
    if not class_weights:
        return
    if kind not in ("classification", "tagging"):
        raise ValueError(
            f"class weights are for classification and tagging, not {kind}; "
            "leave them out."
        )
    if len(class_weights) != num_labels or not all(
        0 < weight < math.inf for weight in class_weights
    ):
        raise ValueError(
            f"class weights {list(class_weights)}; expected {num_labels}, one "
            "for each label, all above 0."
        )


def _check_head(kind, feature_based, head):
    """Refuses a head that there is not, or that has nothing to read."""
    if head not in HEADS:
        raise ValueError(
            f"head {head!r}; it must be one of {', '.join(HEADS)}."
        )
    if feature_based and head == "linear" and kind != "tagging":
        raise ValueError(
            f"a frozen encoder has one vector for each token, but the linear "
            f"head of a {kind} task reads one for the text; take the head "
            "bilstm."
        )
