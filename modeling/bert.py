"""BertModel, the encoder: wordpiece ids to vectors of wordpieces and texts."""

from typing import Any, NamedTuple, Self

import keras
import tensorflow as tf

from modeling import checkpoints, layers
from modeling.attention import attention_bias
from modeling.checkpoints.model_folder import find
from modeling.config import BertConfig
from modeling.embeddings import Embeddings
from modeling.transformer import Encoder


class BertOutput(NamedTuple):
    """The encoder's outputs for a batch.

    Attributes:
      embedding_output: float [B, S, H], the input of the first block.
      all_encoder_layers: float [B, S, H] for each block; [B, 1 + P, H] for the
        last one if the caller passed P positions.
      pooled_output: float [B, H], tanh(dense(first wordpiece)).
      attention_probs: float [B, N, S, S] for each block, queries on the third
        axis and keys on the fourth; [B, N, 1 + P, S] for the last one if the
        caller passed P positions, unless `whole_last_layer`; () in training
        with gradient checkpointing.
    """

    embedding_output: tf.Tensor
    all_encoder_layers: tuple[tf.Tensor, ...]
    pooled_output: tf.Tensor
    attention_probs: tuple[tf.Tensor, ...]

    # The original's accessors.
    def get_pooled_output(self) -> tf.Tensor:
        """Float [B, H]."""
        return self.pooled_output

    def get_sequence_output(self) -> tf.Tensor:
        """Float [B, S or 1 + P, H], the last block's output."""
        return self.all_encoder_layers[-1]

    def get_all_encoder_layers(self) -> tuple[tf.Tensor, ...]:
        """Float [B, S, H] for each block; see the class."""
        return self.all_encoder_layers

    def get_embedding_output(self) -> tf.Tensor:
        """Float [B, S, H]."""
        return self.embedding_output


class Pooler(keras.layers.Layer):
    """tanh(dense(first wordpiece)): one vector for the whole text."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(name="pooler", **kwargs)
        self.dense = layers.Dense(
            config.hidden_size,
            stddev=config.initializer_range,
            activation="tanh",
            name="dense",
            dtype=self.dtype_policy,
        )

    def build(self, input_shape):
        """Builds for inputs [B, S, H]."""
        self.dense.build((None, input_shape[-1]))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [B, S, H] to [B, H]."""
        return self.dense(x[:, 0])


class BertModel(keras.layers.Layer):
    """The encoder of the paper's section 3.

    Its variables are created on construction, because the configuration has
    all sizes.

    Example:
      bert = BertModel(BertConfig.from_json_file("bert_config.json"))
      output = bert(input_ids, input_mask, token_type_ids)
      output.get_pooled_output()  # [B, H]

    Args:
      config: the model's sizes.
      dtype: `float32`; or `mixed_bfloat16` or `mixed_float16` to compute in 16
        bits, but weights, layer norm and softmax in float32.
      use_one_hot_embeddings: see `Embeddings`.
      gradient_checkpointing: see `Encoder`.
      whole_last_layer: see `Encoder`.
      name: first part of every variable's name in a checkpoint.

    Source: `modeling.BertModel`.
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        dtype: str | None = None,
        use_one_hot_embeddings: bool = False,
        gradient_checkpointing: bool = False,
        whole_last_layer: bool = False,
        name: str = "bert",
    ):
        super().__init__(name=name, dtype=dtype)
        self.config = config
        self.embeddings = Embeddings(
            config,
            use_one_hot_embeddings=use_one_hot_embeddings,
            dtype=self.dtype_policy,
        )
        self.encoder = Encoder(
            config,
            gradient_checkpointing=gradient_checkpointing,
            whole_last_layer=whole_last_layer,
            dtype=self.dtype_policy,
        )
        self.pooler = Pooler(config, dtype=self.dtype_policy)
        self.build()

    @classmethod
    def from_folder(cls, folder: str, **options: Any) -> Self:
        """Loads the encoder of a folder; `modeling.load` loads its heads, too.

        Args:
          folder: see `checkpoints.model_folder.find`.
          **options: other arguments of the class.

        Returns:
          The encoder with the folder's weights.

        Raises:
          FileNotFoundError: there is no model, or a file of it is missing.
          ValueError: it is damaged, or several are there.
        """
        found = find(folder)
        bert = cls(found.read_config(), **options)
        report = checkpoints.init_from_checkpoint(
            found.weights, checkpoints.variables_by_name([bert])
        )
        report.log()
        return bert

    def build(self, input_shape=None):
        """Creates every variable."""
        self.embeddings.build()
        width = (None, None, self.config.hidden_size)
        self.encoder.build(width)
        self.pooler.build(width)
        self.built = True

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor | None = None,
        token_type_ids: tf.Tensor | None = None,
        dropout_seed: tf.Tensor | None = None,
        positions: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> BertOutput:
        """Encodes a batch.

        Args:
          input_ids: int32 [B, S], wordpiece ids.
          input_mask: int32 [B, S]; 1 = real, 0 = padding; None = all real.
          token_type_ids: int32 [B, S], segment ids; None = all 0.
          dropout_seed: int32 [2]; the same seed drops the same elements. None =
            no dropout, unless `training`.
          positions: int32 [B, P], each in 0 .. S - 1: the positions of the last
            block's output, after that of the first wordpiece, which the pooler
            reads. None = all.
          training: True, which Keras passes in `fit`, applies dropout with a
            new seed for each call if `dropout_seed` is None. With a
            `dropout_seed` it has no effect.

        Returns:
          A `BertOutput`.
        """
        if input_mask is None:
            input_mask = tf.ones_like(input_ids)
        if token_type_ids is None:
            token_type_ids = tf.zeros_like(input_ids)
        if training and dropout_seed is None:
            dropout_seed = layers.draw_seed()
        seeds = layers.split_seed(dropout_seed, 2)
        embedded = self.embeddings(input_ids, token_type_ids, seeds[0])
        bias = attention_bias(
            input_mask, left_to_right=self.config.left_to_right
        )
        if positions is not None:
            positions = tf.pad(positions, [[0, 0], [1, 0]])
        outputs, attention_probs = self.encoder(
            embedded, bias, seeds[1], positions
        )
        return BertOutput(
            embedding_output=embedded,
            all_encoder_layers=outputs,
            pooled_output=self.pooler(outputs[-1]),
            attention_probs=attention_probs,
        )

    def get_embedding_table(self) -> keras.Variable:
        """The word embedding table, float32 [V, H]."""
        return self.embeddings.word_embeddings
