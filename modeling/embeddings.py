"""Wordpiece + segment + position embeddings (the paper's figure 2)."""

import keras
import tensorflow as tf

from modeling import layers
from modeling.config import BertConfig


class Embeddings(keras.layers.Layer):
    """Adds three embeddings; applies layer norm and dropout.

    Args:
      config: the model's sizes.
      use_one_hot_embeddings: compute word embeddings as a matrix product with
        one-hot rows: the same values, faster on TPU, much slower on CPU.

    Source: `modeling.embedding_lookup`, `modeling.embedding_postprocessor`.
    """

    def __init__(
        self, config: BertConfig, *, use_one_hot_embeddings=False, **kwargs
    ):
        super().__init__(name="embeddings", **kwargs)
        self.config = config
        self.use_one_hot_embeddings = use_one_hot_embeddings
        self.layer_norm = layers.LayerNorm(
            name="LayerNorm", dtype=self.dtype_policy
        )

    def build(self, input_shape=None):
        """Creates the tables [V, H], [segments, H], [positions, H]."""
        config = self.config

        def table(name, rows):
            return self.add_weight(
                name=name,
                shape=(rows, config.hidden_size),
                initializer=layers.initializer(config.initializer_range),
                # Keras would cast the whole table for every lookup.
                autocast=False,
            )

        self.word_embeddings = table("word_embeddings", config.vocab_size)
        self.token_type_embeddings = table(
            "token_type_embeddings", config.type_vocab_size
        )
        self.position_embeddings = table(
            "position_embeddings", config.max_position_embeddings
        )
        self.layer_norm.build((None, config.hidden_size))

    def call(
        self,
        input_ids: tf.Tensor,
        token_type_ids: tf.Tensor,
        dropout_seed: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Embeds a batch.

        Args:
          input_ids: int32 [B, S], wordpiece ids.
          token_type_ids: int32 [B, S], segment ids.
          dropout_seed: int32 [2], or None for no dropout.

        Returns:
          Float [B, S, H] in the compute dtype.
        """
        words = tf.convert_to_tensor(self.word_embeddings)
        if self.use_one_hot_embeddings:
            table = tf.cast(words, self.compute_dtype)
            x = tf.cast(self._one_hot_lookup(table, input_ids), tf.float32)
        else:
            x = tf.gather(words, input_ids)
        # With few rows, the matrix product is faster on every device.
        x += self._one_hot_lookup(
            tf.convert_to_tensor(self.token_type_embeddings), token_type_ids
        )
        seq_length = tf.shape(input_ids)[1]
        x += tf.convert_to_tensor(self.position_embeddings)[:seq_length]
        x = tf.cast(self.layer_norm(x), self.compute_dtype)
        return layers.dropout(x, self.config.hidden_dropout_prob, dropout_seed)

    def _one_hot_lookup(self, table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        """Looks ids [B, S] up in a table [rows, H]: float [B, S, H]."""
        one_hot = tf.one_hot(
            tf.reshape(ids, [-1]), tf.shape(table)[0], dtype=table.dtype
        )
        return tf.reshape(
            tf.matmul(one_hot, table),
            tf.concat([tf.shape(ids), [table.shape[-1]]], axis=0),
        )
