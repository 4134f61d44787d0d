"""Masked multi-head self-attention on flattened rows.

Axis letters: see `layers`. Q queries in a sequence: S, or fewer; T keys and
values in a sequence: S.

TensorFlow 2.21 has no fused attention for a GPU: Keras 3.15 raises a ValueError
for flash attention on this backend, and without it computes the same products
and softmax. XLA (`--xla`) fuses what lies between the products.
"""

import tensorflow as tf

from modeling import layers
from modeling.config import BertConfig
from modeling.kernels import block as kernels
from modeling.kernels.seeds import dropout_draws, has_gpu

# Added to the scores of masked positions. It is finite, as in the original, so
# that a query without any visible key averages the values and is not NaN.
HIDDEN_SCORE = -10000.0


def attention_bias(
    input_mask: tf.Tensor, *, left_to_right: bool = False
) -> tf.Tensor:
    """Returns the numbers that mask attention scores.

    Args:
      input_mask: int32 [B, S]; 1 = real wordpiece, 0 = padding. Or [B, S, S],
        queries on the second axis and keys on the third; 1 = visible.
      left_to_right: True also masks all later positions.

    Returns:
      Float32 [B, 1, 1, S], or [B, 1, S, S] if left_to_right or if the mask
      has queries, to be added to the scores: 0 at visible positions, -10000 at
      masked ones. Padding is masked as a key, not as a query.

    Source: `modeling.create_attention_mask_from_input_mask`,
      `modeling.attention_layer`.
    """
    visible = tf.cast(input_mask, tf.float32)[:, tf.newaxis]
    if visible.shape.rank != 4:  # not one for each query
        visible = visible[:, :, tf.newaxis]
    if left_to_right:
        length = tf.shape(visible)[-1]
        visible *= tf.linalg.band_part(tf.ones([length, length]), -1, 0)
    return (1.0 - visible) * HIDDEN_SCORE


def within_documents(
    input_mask: tf.Tensor, document_ids: tf.Tensor
) -> tf.Tensor:
    """Masks the wordpieces of the other documents in a row.

    `input_mask` (1 = real, 0 = padding) and `document_ids` are int32 [B, S].
    Returns int32 [B, S, S] for `attention_bias`: 1 where a query and a real key
    belong to the same document.

    Source: Krell et al. 2021 (arXiv:2107.02027), who also count the positions
      of each sequence from 0.
    """
    queries, keys = document_ids[:, :, tf.newaxis], document_ids[:, tf.newaxis]
    return tf.cast(queries == keys, tf.int32) * input_mask[:, tf.newaxis]


def as_bias(
    bias: tf.Tensor | None, x: tf.Tensor, config: BertConfig
) -> tf.Tensor:
    """Makes an attention bias from a mask.

    A bias, float [B, 1, any, T], is returned. A mask is of bool or numbers,
    [B, S] or [B, S, S]; True or 1 = visible. None = all of x, float [B, S, H],
    is visible. Returns float [B, 1, 1 or S, S]. Raises ValueError if there is
    neither a bias nor a batch in x.
    """
    if bias is None:
        if x.shape.rank != 3:
            raise ValueError(
                f"x has the shape {x.shape}; expected [batch, length, H]."
            )
        bias = tf.ones(tf.shape(x)[:2])
    if bias.shape.rank not in (2, 3):
        return bias
    return attention_bias(bias, left_to_right=config.left_to_right)


@layers.registered
class SelfAttention(layers.DropoutLayer):
    """softmax(Q K^T / sqrt(D) + bias) V, for N heads side by side.

    Args:
      config: the model's sizes.
      seed: see `layers.DropoutLayer`.

    Source: `modeling.attention_layer`; "Attention Is All You Need",
      section 3.2.
    """

    def __init__(self, config: BertConfig, *, name="self", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.head_size = config.hidden_size // config.num_attention_heads
        self.query, self.key, self.value = (
            self.new_dense(config.hidden_size, name=name)
            for name in ("query", "key", "value")
        )

    def build(self, input_shape):
        """Creates the three projections [H, H]."""
        for projection in (self.query, self.key, self.value):
            projection.build(input_shape)

    def call(
        self,
        x: tf.Tensor,
        bias: tf.Tensor | None = None,
        dropout_seed: tf.Tensor | None = None,
        queries: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Attends within each sequence.

        Args:
          x: float [M, H], the rows of keys and values.
          bias: float [B, 1, 1 or Q, T], from `attention_bias`; see `as_bias`.
          dropout_seed: int32 [2]; None = see `training`.
          queries: float [B * Q, H], the rows of x that are queries; None = all.
          training: True applies dropout; see `BertModel.call`.

        Returns:
          The weighted values, float [B * Q, H]; and the attention probabilities
          before dropout, float [B, N, Q, T].
        """
        bias = as_bias(bias, x, self.config)
        seed = self.seed_of_call(training, dropout_seed)
        if queries is None:
            queries = x
        length = bias.shape[-1] or tf.shape(bias)[-1]
        num_queries = length if queries is x else -1
        query = self._split_heads(self.query(queries), bias, num_queries)
        key = self._split_heads(self.key(x), bias, length)
        value = self._split_heads(self.value(x), bias, length)
        scale = tf.constant(self.head_size**-0.5, query.dtype)
        # A product in float16 may overflow, and each operation on the scores is
        # a pass over them: only a CPU's inference fuses them with the product.
        scales_queries = query.dtype == tf.float16 or has_gpu()
        scales_queries |= kernels.current() in kernels.TRAINING
        if scales_queries:
            query *= scale
        # [B, N, Q, T]. All in the compute dtype, which a CPU fuses.
        scores = tf.matmul(query, key, transpose_b=True)
        if not scales_queries:
            scores *= scale
        rate = self.config.attention_probs_dropout_prob
        draws = dropout_draws(scores, seed, rate)
        probabilities, kept = kernels.attention_probabilities(
            scores, bias, draws, rate=rate
        )
        # [B, N, Q, D] -> [B, Q, N, D] -> [B * Q, H]
        context = kernels.swap_heads(tf.matmul(kept, value))
        rows = tf.reshape(context, [-1, self.config.hidden_size])
        return layers.shaped_like(rows, queries), probabilities

    def _split_heads(
        self, x: tf.Tensor, bias: tf.Tensor, length: tf.Tensor | int
    ) -> tf.Tensor:
        """[B * length, H] -> [B, N, length, D]; -1 = any length, if B > 0."""
        num_heads = self.config.num_attention_heads
        shape = [tf.shape(bias)[0], length, num_heads, self.head_size]
        return kernels.swap_heads(tf.reshape(x, shape))
