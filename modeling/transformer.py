"""One Transformer block (post-layer-norm), and the stack of them.

Axis letters: see `layers`; Q the positions where a block's output is wanted.
"""

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
        wanted: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `TransformerBlock.call`."""
        seeds = layers.split_seed(dropout_seed, 2)
        looking = x if wanted is None else tf.gather(x, wanted)
        context, probabilities = self.self_attention(x, bias, seeds[0], looking)
        return self.output_layer(context, looking, seeds[1]), probabilities


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
        wanted: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs the block.

        Args:
          x: float [M, H].
          bias: float [B, 1, 1 or Q, S], from `attention_bias`.
          dropout_seed: int32 [2], or None for no dropout.
          wanted: int32 [B * Q], the rows of x whose output is wanted, as many
            of each sequence; None = all. The others are only looked at.

        Returns:
          Float [B * Q, H], and the attention probabilities [B, N, Q, S].
        """
        seeds = layers.split_seed(dropout_seed, 2)
        attended, probabilities = self.attention(x, bias, seeds[0], wanted)
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
      whole_last_layer: compute the last block at every position, also where
        nobody reads it.
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        gradient_checkpointing=False,
        whole_last_layer=False,
        **kwargs,
    ):
        # The blocks cast their weights; `recomputed` reads them as they are.
        super().__init__(name="encoder", autocast=False, **kwargs)
        self.gradient_checkpointing = gradient_checkpointing
        self.whole_last_layer = whole_last_layer
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
        positions: tf.Tensor | None = None,
    ) -> tuple[tuple[tf.Tensor, ...], tuple[tf.Tensor, ...]]:
        """Runs the stack.

        Args:
          x: float [B, S, H], the embeddings.
          bias: float [B, 1, 1 or S, S], from `attention_bias`.
          dropout_seed: int32 [2], or None for no dropout.
          positions: int32 [B, Q], each in 0 .. S - 1, where the last block's
            output is wanted; None = everywhere.

        Returns:
          Every block's output, float [B, S, H] each, of the last one
          [B, Q, H]; and every block's attention probabilities, float
          [B, N, S, S] each, of the last one [B, N, Q, S] unless it is
          computed whole, but none while training with gradient checkpointing,
          which is not to keep them.
        """
        # Differs from the original: the last block does no work where nobody
        # reads it (pretraining reads 21 of 128 positions, a classifier one),
        # because what is read is the same without.
        shape = tf.shape(x)
        rows = tf.reshape(x, [-1, x.shape[-1]])  # stays a matrix: see Dense
        by_text = [shape[0], -1, x.shape[-1]]
        seeds = layers.split_seed(dropout_seed, len(self.blocks))
        wanted = None if positions is None else _row_numbers(positions, shape)
        narrows = positions is not None and not self.whole_last_layer
        outputs, attentions = [], []
        for block, seed in zip(self.blocks, seeds, strict=True):
            if narrows and block is self.blocks[-1]:
                bias = _bias_at(bias, positions)
                rows, kept = self._run(block, rows, bias, seed, wanted)
            else:
                rows, kept = self._run(block, rows, bias, seed)
            outputs.append(tf.reshape(rows, by_text))
            attentions += kept
        if positions is not None and self.whole_last_layer:
            outputs[-1] = tf.reshape(tf.gather(rows, wanted), by_text)
        return tuple(outputs), tuple(attentions)

    def _run(self, block, rows, bias, seed, wanted=None):
        """A block's output; its attention probabilities, if they are kept."""
        if self.gradient_checkpointing and seed is not None:
            rows = recomputed(
                lambda x, seed: block(x, bias, seed, wanted)[0],
                rows,
                seed,
                block.trainable_variables,
            )
            return rows, []
        rows, probabilities = block(rows, bias, seed, wanted)
        return rows, [probabilities]


def _row_numbers(positions, shape):
    """Positions [B, Q] of sequences [B, S, any] as rows of a matrix: [B * Q].

    Source: `run_pretraining.gather_indexes`.
    """
    first_row = tf.range(shape[0])[:, tf.newaxis] * shape[1]
    return tf.reshape(positions + first_row, [-1])


def _bias_at(bias, positions):
    """What the positions [B, Q] may see: [B, 1, 1 or S, S] -> 1 or Q rows."""
    if bias.shape[2] == 1:  # all see the same
        return bias
    return tf.gather(bias, positions, axis=2, batch_dims=1)
