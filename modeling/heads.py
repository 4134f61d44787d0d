"""The layers on top of the encoder."""

import keras
import tensorflow as tf

from modeling import layers
from modeling.config import BertConfig
from modeling.kernels import vocabulary as kernels


@layers.registered
class Transform(layers.Layer):
    """LayerNorm(act(dense(x))), before the output embedding.

    It is as wide as the embeddings.
    """

    def __init__(self, config: BertConfig, *, name="transform", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.dense = self.new_dense(config.embedding_width, config.hidden_act)
        self.layer_norm = layers.LayerNorm(name="LayerNorm", **self.inherited)

    def build(self, input_shape):
        """Builds for inputs [M, H]."""
        self.dense.build(input_shape)
        self.layer_norm.build((None, self.dense.units))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [M, H] to [M, E]."""
        return self.layer_norm(self.dense(x))


@layers.registered
class MaskedLM(layers.Layer):
    """Scores every wordpiece for the masked positions (section 3.1, task 1).

    The output matrix is the word embedding table, passed in at each call: in a
    functional model `bert(input_ids, output_key="embedding_table")`.

    Source: `run_pretraining.get_masked_lm_output`.
    """

    def __init__(self, config: BertConfig, *, name="predictions", **kwargs):
        # The kernels cast table and bias; their gradients stay float32.
        super().__init__(config, name=name, autocast=False, **kwargs)
        self.transform = Transform(config, **self.inherited)

    def build(self, input_shape):
        """Creates the transform and output_bias [V] for inputs [M, H]."""
        self.transform.build(input_shape)
        self.output_bias = self.new_zeros("output_bias", self.config.vocab_size)

    def call(
        self,
        x: tf.Tensor,
        embedding_table: tf.Tensor,
        labels: tf.Tensor | None = None,
        in_parts: bool = False,
    ) -> tf.Tensor:
        """Scores the vocabulary, or returns the loss of each label.

        Args:
          x: float [M, H], the vectors of the masked positions.
          embedding_table: float32 [V, E].
          labels: int32 [M], the masked wordpieces; None returns the scores.
          in_parts: with labels, compute parts of the rows one after the other;
            see `vocabulary_loss_in_parts`.

        Returns:
          Logits, [M, V] in the compute dtype. With labels, float32 [2, M]: the
          cross entropy of the logits, and 1.0 where the label has the highest
          one.
        """
        rows = self.transform(layers.as_rows(x))
        bias = tf.convert_to_tensor(self.output_bias)
        if labels is None:
            logits = kernels.vocabulary_logits(rows, embedding_table, bias)
            return layers.shaped_like(logits, x)
        loss_of = kernels.vocabulary_loss
        if in_parts:
            loss_of = kernels.vocabulary_loss_in_parts
        return loss_of(rows, embedding_table, bias, tf.cast(labels, tf.int32))


@layers.registered
class LinearOutput(layers.Layer):
    """x @ output_weights^T + output_bias: one score for each class.

    Args:
      num_classes: C.
      stddev: standard deviation of the weights' initializer; the original's
        for tasks does not depend on the configuration.

    Source: `run_pretraining.get_next_sentence_output`.
    """

    SETTINGS = ("num_classes", "stddev")

    def __init__(self, num_classes, *, stddev=0.02, **kwargs):
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self.stddev = stddev

    def build(self, input_shape):
        """Creates output_weights [C, H] and output_bias [C]."""
        shape = self.num_classes, input_shape[-1]
        self.output_weights = self.new_random(
            "output_weights", shape, self.stddev
        )
        self.output_bias = self.new_zeros("output_bias", self.num_classes)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps float [M, H] or [B, S, H] to float32 logits, C for H."""
        weights = tf.convert_to_tensor(self.output_weights)
        logits = tf.matmul(layers.as_rows(x), weights, transpose_b=True)
        bias = tf.convert_to_tensor(self.output_bias)
        logits = tf.cast(logits, tf.float32) + tf.cast(bias, tf.float32)
        return layers.shaped_like(logits, x)


@layers.registered
class TaskOutput(LinearOutput):
    """The head for fine-tuning: a `LinearOutput` outside of all scopes.

    As in the original, its names in a checkpoint are `output_weights` and
    `output_bias`.

    Args:
      num_classes: C.
      hidden_size: H.

    Source: `run_classifier.create_model`.
    """

    SETTINGS = ("num_classes", "hidden_size")

    def __init__(self, num_classes, hidden_size, **kwargs):
        super().__init__(num_classes, **kwargs)
        self.hidden_size = hidden_size
        # `add_weight` in `build` would add the layer's name to the path.
        shape, dtype = (num_classes, hidden_size), self.variable_dtype
        self.output_weights = keras.Variable(
            layers.initializer(self.stddev), shape, dtype, name="output_weights"
        )
        self.output_bias = keras.Variable(
            "zeros", (num_classes,), dtype, name="output_bias"
        )
        for variable in self.weights:
            variable.trainable = self.trainable
        self.built = True

    def build(self, input_shape=None):
        """Does nothing: the variables exist."""


@layers.registered
class SpanHead(layers.Layer):
    """Scores every wordpiece as start and as end, under the scope `cls/squad`.

    Args:
      hidden_size: H.

    Source: `run_squad.create_model`.
    """

    SETTINGS = ("hidden_size",)

    def __init__(self, hidden_size: int, *, name: str = "cls", **kwargs):
        super().__init__(name=name, **kwargs)
        self.squad = LinearOutput(2, name="squad", **self.inherited)
        self.hidden_size = hidden_size
        self.build()

    def build(self, input_shape=None):
        """Creates output_weights [2, H] and output_bias [2]."""
        self.squad.build((None, self.hidden_size))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps float [B, S, H] to float32 [B, S, 2]."""
        return self.squad(x)


@layers.registered
class LanguageModelHead(layers.Layer):
    """The masked-LM head alone, under the scope `cls`."""

    def __init__(self, config: BertConfig, *, name: str = "cls", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.predictions = MaskedLM(config, **self.inherited)
        self.build()

    def build(self, input_shape=None):
        """Creates every variable."""
        self.predictions.build((None, self.config.hidden_size))

    def call(self, x: tf.Tensor, embedding_table: tf.Tensor) -> tf.Tensor:
        """Scores the vocabulary; see `MaskedLM.call`."""
        return self.predictions(x, embedding_table)


@layers.registered
class PretrainingHeads(LanguageModelHead):
    """The masked-LM and next-sentence heads, under the scope `cls`."""

    def build(self, input_shape=None):
        """Creates every variable."""
        super().build()
        stddev = self.config.initializer_range
        self.seq_relationship = LinearOutput(
            2, stddev=stddev, name="seq_relationship", **self.inherited
        )
        self.seq_relationship.build((None, self.config.hidden_size))

    def call(
        self, x: tf.Tensor, pooled_output: tf.Tensor, embedding_table: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Scores the vocabulary, and the pair.

        `x` is float [M, H] or [B, P, H], the vectors of the masked positions,
        and `pooled_output` float [B, H]; for the table see `MaskedLM`. Returns
        logits [M, V] or [B, P, V] in the compute dtype, and float32 [B, 2].
        """
        logits = self.predictions(x, embedding_table)
        return logits, self.seq_relationship(pooled_output)


@layers.registered
class GeneratorPredictions(Transform):
    """ELECTRA's masked-LM head: `MaskedLM` with other names of variables.

    Args:
      config: the generator's configuration.

    Source: google-research/electra, `PretrainingModel._get_masked_lm_output`.
    """

    def __init__(
        self, config: BertConfig, *, name="generator_predictions", **kwargs
    ):
        # The kernels cast table and bias; their gradients stay float32.
        super().__init__(config, name=name, autocast=False, **kwargs)
        self.build((None, config.hidden_size))

    def build(self, input_shape):
        """Creates dense, LayerNorm and output_bias [V]."""
        super().build(input_shape)
        self.output_bias = self.new_zeros("output_bias", self.config.vocab_size)

    def call(self, x: tf.Tensor, embedding_table: tf.Tensor) -> tf.Tensor:
        """Scores the vocabulary: logits [M, V] in the compute dtype.

        `x` is float [M, H], the vectors of the masked positions, and the table
        float32 [V, E].
        """
        rows = super().call(layers.as_rows(x))
        bias = tf.convert_to_tensor(self.output_bias)
        logits = kernels.vocabulary_logits(rows, embedding_table, bias)
        return layers.shaped_like(logits, x)


@layers.registered
class DiscriminatorPredictions(layers.Layer):
    """ELECTRA's score of each wordpiece: above 0 = replaced.

    Args:
      config: the discriminator's configuration.

    Source: google-research/electra,
      `PretrainingModel._get_discriminator_output`.
    """

    def __init__(
        self, config: BertConfig, *, name="discriminator_predictions", **kwargs
    ):
        super().__init__(config, name=name, **kwargs)
        self.dense = self.new_dense(config.hidden_size, config.hidden_act)
        # ELECTRA's initializer of this layer does not depend on the
        # configuration.
        self.score = layers.Dense(
            1, stddev=None, name="dense_1", **self.inherited
        )
        self.build()

    def build(self, input_shape=None):
        """Creates every variable."""
        self.dense.build((None, self.config.hidden_size))
        self.score.build((None, self.config.hidden_size))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps float [B, S, H] to float32 scores [B, S]."""
        return tf.cast(self.score(self.dense(x))[..., 0], tf.float32)
