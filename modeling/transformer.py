"""One Transformer block (post-layer-norm), and the stack of them."""

import keras
import tensorflow as tf

from modeling import layers
from modeling.attention import SelfAttention
from modeling.config import BertConfig
from modeling.recomputation import recomputed


class ResidualOutput(keras.layers.Layer):
    """LayerNorm(residual + dropout(dense(x))): the end of both sub-layers."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(name="output", **kwargs)
        self.dropout_prob = config.hidden_dropout_prob
        self.dense = layers.Dense(
            config.hidden_size,
            stddev=config.initializer_range,
            name="dense",
            dtype=self.dtype_policy,
        )
        self.layer_norm = layers.LayerNorm(
            name="LayerNorm", dtype=self.dtype_policy
        )

    def build(self, input_shape):
        """Builds for inputs [M, input_shape[-1]]."""
        self.dense.build(input_shape)
        self.layer_norm.build((None, self.dense.units))

    def call(
        self,
        x: tf.Tensor,
        residual: tf.Tensor,
        dropout_seed: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Maps float [M, any] and a residual [M, H] to [M, H]."""
        return self.layer_norm(
            self.dense(x),
            residual,
            dropout_prob=self.dropout_prob,
            dropout_seed=dropout_seed,
        )


class Attention(keras.layers.Layer):
    """Self-attention and its residual output."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(name="attention", **kwargs)
        self.self_attention = SelfAttention(config, dtype=self.dtype_policy)
        self.output_layer = ResidualOutput(config, dtype=self.dtype_policy)

    def build(self, input_shape):
        """Builds for inputs [M, H]."""
        self.self_attention.build(input_shape)
        self.output_layer.build(input_shape)

    def call(
        self,
        x: tf.Tensor,
        bias: tf.Tensor,
        dropout_seed: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns [M, H] and the attention probabilities [B, N, S, T]."""
        seeds = layers.split_seed(dropout_seed, 2)
        context, probabilities = self.self_attention(x, bias, seeds[0])
        return self.output_layer(context, x, seeds[1]), probabilities


class TransformerBlock(keras.layers.Layer):
    """Attention, then the feed-forward layer.

    Source: `modeling.transformer_model`, one turn of its loop.
    """

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        self.attention = Attention(config, dtype=self.dtype_policy)
        # The dense layer lies one scope deeper in the original's names.
        self.intermediate = Intermediate(config, dtype=self.dtype_policy)
        self.output_layer = ResidualOutput(config, dtype=self.dtype_policy)
        self.intermediate_size = config.intermediate_size

    def build(self, input_shape):
        """Builds for inputs [M, H]."""
        self.attention.build(input_shape)
        self.intermediate.build(input_shape)
        self.output_layer.build((None, self.intermediate_size))

    def call(
        self,
        x: tf.Tensor,
        bias: tf.Tensor,
        dropout_seed: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns [M, H] and the attention probabilities [B, N, S, T]."""
        seeds = layers.split_seed(dropout_seed, 2)
        attended, probabilities = self.attention(x, bias, seeds[0])
        widened = self.intermediate(attended)
        return self.output_layer(widened, attended, seeds[1]), probabilities


class Intermediate(keras.layers.Layer):
    """The widening half of the feed-forward layer: act(dense(x))."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(name="intermediate", **kwargs)
        self.dense = layers.Dense(
            config.intermediate_size,
            stddev=config.initializer_range,
            activation=config.hidden_act,
            name="dense",
            dtype=self.dtype_policy,
        )

    def build(self, input_shape):
        """Builds for inputs [M, H]."""
        self.dense.build(input_shape)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [M, H] to [M, intermediate_size]."""
        return self.dense(x)


class Encoder(keras.layers.Layer):
    """The stack of Transformer blocks.

    Args:
      config: the model's sizes.
      gradient_checkpointing: while training keep what enters each block, and
        compute its inside again for the gradient.
    """

    def __init__(
        self, config: BertConfig, *, gradient_checkpointing=False, **kwargs
    ):
        # The blocks cast their weights; `recomputed` reads them as they are.
        super().__init__(name="encoder", autocast=False, **kwargs)
        self.gradient_checkpointing = gradient_checkpointing
        self.blocks = [
            TransformerBlock(config, name=f"layer_{i}", dtype=self.dtype_policy)
            for i in range(config.num_hidden_layers)
        ]

    def build(self, input_shape):
        """Builds for inputs [B, S, H]."""
        for block in self.blocks:
            block.build((None, input_shape[-1]))

    def call(
        self,
        x: tf.Tensor,
        bias: tf.Tensor,
        dropout_seed: tf.Tensor | None = None,
    ) -> tuple[tuple[tf.Tensor, ...], tuple[tf.Tensor, ...]]:
        """Runs the stack.

        Args:
          x: float [B, S, H], the embeddings.
          bias: float [B, 1, 1 or S, S], from `attention_bias`.
          dropout_seed: int32 [2], or None for no dropout.

        Returns:
          Every block's output, float [B, S, H] each; and every block's
          attention probabilities, float [B, N, S, S] each, but none while
          training with gradient checkpointing, which is not to keep them.
        """
        shape = tf.shape(x)
        rows = tf.reshape(x, [-1, x.shape[-1]])  # stays a matrix: see Dense
        seeds = layers.split_seed(dropout_seed, len(self.blocks))
        outputs, attentions = [], []
        for block, seed in zip(self.blocks, seeds, strict=True):
            if self.gradient_checkpointing and seed is not None:
                rows = recomputed(
                    lambda x, seed, block=block: block(x, bias, seed)[0],
                    rows,
                    seed,
                    block.trainable_variables,
                )
            else:
                rows, probabilities = block(rows, bias, seed)
                attentions.append(probabilities)
            outputs.append(tf.reshape(rows, shape))
        return tuple(outputs), tuple(attentions)
