"""One Transformer block (post-layer-norm), and the stack of them.

Axis letters: see `layers`; Q queries, the positions of a block's output.
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
        queries = x if wanted is None else tf.gather(x, wanted)
        context, probabilities = self.self_attention(x, bias, seeds[0], queries)
        return self.output_layer(context, queries, seeds[1]), probabilities


class TransformerBlock(keras.layers.Layer):
    """Attention, then the feed-forward layer.

    Source: `modeling.transformer_model`, one turn of its loop.
    """

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        self.attention = Attention(config, dtype=self.dtype_policy)
        # A layer of its own, because the original has a scope for it.
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
          wanted: int32 [B * Q], the rows of x to compute, Q in each sequence;
            None = all. All rows are keys and values.

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
      gradient_checkpointing: in training, store only the input of each block
        and compute the rest again for the gradient. It saves memory.
      whole_last_layer: compute the last block at all positions, not only at
        those whose output is used.
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        gradient_checkpointing=False,
        whole_last_layer=False,
        **kwargs,
    ):
        # Blocks cast their own weights; `recomputed` needs the uncast ones.
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
          positions: int32 [B, Q], each in 0 .. S - 1: the positions of the
            last block's output; None = all.

        Returns:
          The output of each block, float [B, S, H], that of the last block
          [B, Q, H]; and the attention probabilities of each block, float
          [B, N, S, S]. Those of the last block are [B, N, Q, S], unless
          `whole_last_layer`. In training with gradient checkpointing there
          are no probabilities.
        """
        # Differs from the original: the last block is computed only at the
        # positions that are used (21 of 128 in pretraining, one in a
        # classifier), because their values do not depend on the others.
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
        """Returns a block's output and a list of attention probabilities."""
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
    """Returns the rows of positions [B, Q] in a matrix [B * S, any]: [B * Q].

    Source: `run_pretraining.gather_indexes`.
    """
    first_row = tf.range(shape[0])[:, tf.newaxis] * shape[1]
    return tf.reshape(positions + first_row, [-1])


def _bias_at(bias, positions):
    """Selects the positions [B, Q]: [B, 1, 1 or S, S] to [B, 1, 1 or Q, S]."""
    if bias.shape[2] == 1:  # the same for all
        return bias
    return tf.gather(bias, positions, axis=2, batch_dims=1)
