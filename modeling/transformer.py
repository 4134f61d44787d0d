"""One Transformer block (post-layer-norm), and the stack of them.

Axis letters: see `layers`; Q queries, the positions of a block's output.
"""

import tensorflow as tf

from modeling import layers
from modeling.attention import SelfAttention, as_bias
from modeling.config import BertConfig
from modeling.kernels import block as kernels
from modeling.kernels.recomputation import recomputed
from modeling.kernels.seeds import dropout_draws


@layers.registered
class ResidualOutput(layers.DropoutLayer):
    """LayerNorm(residual + dropout(dense(x))): the end of both sub-layers."""

    def __init__(self, config: BertConfig, *, name="output", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.dense = self.new_dense(config.hidden_size)
        self.layer_norm = layers.LayerNorm(name="LayerNorm", **self.inherited)

    def build(self, input_shape):
        """Builds for inputs [M, input_shape[-1]]."""
        self.dense.build(input_shape)
        self.layer_norm.build((None, self.dense.units))

    def call(
        self,
        x: tf.Tensor,
        residual: tf.Tensor,
        dropout_seed: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Maps float [M, any] and a residual [M, H] to [M, H]."""
        seed = self.seed_of_call(training, dropout_seed)
        x, rate = self.dense(x), self.config.hidden_dropout_prob
        drops = {"rate": rate, "draws": dropout_draws(x, seed, rate)}
        return kernels.layer_norm(
            x, *self.layer_norm.parameters, residual=residual, **drops
        )


@layers.registered
class Attention(layers.DropoutLayer):
    """Self-attention and its residual output."""

    def __init__(self, config: BertConfig, *, name="attention", **kwargs):
        super().__init__(config, name=name, **kwargs)
        options = {**self.inherited, "seed": self.seed_generator}
        self.self_attention = SelfAttention(config, **options)
        self.output_layer = ResidualOutput(config, **options)

    def build(self, input_shape):
        """Builds for inputs [M, H]."""
        self.self_attention.build(input_shape)
        self.output_layer.build(input_shape)

    def call(
        self,
        x: tf.Tensor,
        bias: tf.Tensor | None = None,
        dropout_seed: tf.Tensor | None = None,
        wanted: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `TransformerBlock.call`."""
        seeds = self.seeds_of_call(training, dropout_seed, 2)
        bias = as_bias(bias, x, self.config)
        rows = layers.as_rows(x)
        queries = rows if wanted is None else tf.gather(rows, wanted)
        context, probs = self.self_attention(rows, bias, seeds[0], queries)
        attended = self.output_layer(context, queries, seeds[1])
        if wanted is None:
            attended = layers.shaped_like(attended, x)
        return attended, probs


@layers.registered
class TransformerBlock(layers.DropoutLayer):
    """Attention, then the feed-forward layer.

    Args:
      config: the model's sizes.
      seed: see `layers.DropoutLayer`.

    Source: `modeling.transformer_model`, one turn of its loop.
    """

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        options = {**self.inherited, "seed": self.seed_generator}
        self.attention = Attention(config, **options)
        # A layer of its own, because the original has a scope for it.
        self.intermediate = Intermediate(config, **self.inherited)
        self.output_layer = ResidualOutput(config, **options)

    def build(self, input_shape):
        """Builds for inputs [M, H]."""
        self.attention.build(input_shape)
        self.intermediate.build(input_shape)
        self.output_layer.build((None, self.config.intermediate_size))

    def call(
        self,
        x: tf.Tensor,
        bias: tf.Tensor | None = None,
        dropout_seed: tf.Tensor | None = None,
        wanted: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs the block.

        Args:
          x: float [M, H].
          bias: float [B, 1, 1 or Q, S], from `attention_bias`; see `as_bias`.
          dropout_seed: int32 [2]; None = see `training`.
          wanted: int32 [B * Q], the rows of x to compute, Q in each sequence;
            None = all. All rows are keys and values.
          training: True applies dropout; see `BertModel.call`.

        Returns:
          Float [B * Q, H], and the attention probabilities [B, N, Q, S].
        """
        seeds = self.seeds_of_call(training, dropout_seed, 2)
        attended, probabilities = self.attention(x, bias, seeds[0], wanted)
        widened = self.intermediate(attended)
        return self.output_layer(widened, attended, seeds[1]), probabilities


@layers.registered
class Intermediate(layers.Layer):
    """The widening half of the feed-forward layer: act(dense(x))."""

    def __init__(self, config: BertConfig, *, name="intermediate", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.dense = self.new_dense(config.intermediate_size, config.hidden_act)

    def build(self, input_shape):
        """Builds for inputs [M, H]."""
        self.dense.build(input_shape)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [M, H] to [M, intermediate_size]."""
        return self.dense(x)


@layers.registered
class Encoder(layers.DropoutLayer):
    """The stack of Transformer blocks.

    Args:
      config: the model's sizes.
      gradient_checkpointing: in training, store only the input of each block
        and compute the rest again for the gradient. It saves memory.
      whole_last_layer: compute the last block at all positions, not only at
        those whose output is used.
      seed: see `layers.DropoutLayer`.
    """

    SETTINGS = ("gradient_checkpointing", "whole_last_layer", "seed")

    def __init__(
        self,
        config: BertConfig,
        *,
        gradient_checkpointing=False,
        whole_last_layer=False,
        name="encoder",
        **kwargs,
    ):
        # Blocks cast their own weights; `recomputed` needs the uncast ones.
        super().__init__(config, name=name, autocast=False, **kwargs)
        self.gradient_checkpointing = gradient_checkpointing
        self.whole_last_layer = whole_last_layer
        options = {**self.inherited, "seed": self.seed_generator}
        self.blocks = [
            TransformerBlock(config, name=f"layer_{i}", **options)
            for i in range(config.num_hidden_layers)
        ]

    def build(self, input_shape):
        """Builds for inputs [M, H]."""
        for block in self.blocks:
            block.build(input_shape)

    def call(
        self,
        x: tf.Tensor,
        bias: tf.Tensor | None = None,
        dropout_seed: tf.Tensor | None = None,
        positions: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[tuple[tf.Tensor, ...], tuple[tf.Tensor, ...]]:
        """Runs the stack.

        Args:
          x: float [B, S, H], the embeddings.
          bias: float [B, 1, 1 or S, S], from `attention_bias`; see `as_bias`.
          dropout_seed: int32 [2]; None = see `training`.
          positions: int32 [B, Q], each in 0 .. S - 1: the positions of the
            last block's output; None = all.
          training: True applies dropout; see `BertModel.call`.

        Returns:
          The output of each block, float [B, S, H], but [B, Q, H] of the last;
          and the attention probabilities of each block, float [B, N, S, S], but
          [B, N, Q, S] of the last block, unless `whole_last_layer`. In training
          with gradient checkpointing the probabilities are ().
        """
        # Differs from the original: the last block is computed only at the
        # positions that are used (21 of 128 in pretraining, one in a
        # classifier), because their values do not depend on the others.
        shape = tf.shape(x)
        rows = tf.reshape(x, [-1, x.shape[-1]])  # stays a matrix: see Dense
        bias = as_bias(bias, x, self.config)
        seeds = self.seeds_of_call(training, dropout_seed, len(self.blocks))
        narrows = positions is not None and not self.whole_last_layer
        wanted, outputs, attentions = None, [], []
        for block, seed in zip(self.blocks, seeds, strict=True):
            if narrows and block is self.blocks[-1]:
                wanted = _row_numbers(positions, shape)
                bias = _bias_at(bias, positions)
                num_wanted = positions.shape[1] or tf.shape(positions)[1]
                shape = [shape[0], num_wanted, x.shape[-1]]
            rows, kept = self._run(block, rows, bias, seed, wanted)
            outputs.append(tf.reshape(rows, shape))
            attentions += kept
        if positions is not None and self.whole_last_layer:
            outputs[-1] = tf.gather(outputs[-1], positions, batch_dims=1)
        return tuple(outputs), tuple(attentions)

    def _run(self, block, rows, bias, seed, wanted):
        """Returns a block's output and a list of attention probabilities."""
        if self.gradient_checkpointing and seed is not None:

            def run(x, seed):
                return block(x, bias, seed, wanted)[0]

            return recomputed(run, rows, seed, block.weights), []
        rows, probabilities = block(rows, bias, seed, wanted)
        return rows, [probabilities]


def _row_numbers(positions, shape):
    """Returns the rows of positions [B, Q] in a matrix [B * S, any]: [B * Q].

    Source: `run_pretraining.gather_indexes`.
    """
    first_row = tf.range(shape[0])[:, tf.newaxis] * shape[1]
    return tf.reshape(tf.cast(positions, tf.int32) + first_row, [-1])


def _bias_at(bias, positions):
    """Selects the positions [B, Q]: [B, 1, 1 or S, S] to [B, 1, 1 or Q, S]."""
    if bias.shape[2] == 1:  # the same for all
        return bias
    return tf.gather(bias, positions, axis=2, batch_dims=1)
