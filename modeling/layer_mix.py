"""Combines the layers of a frozen encoder (the paper's section 5.3).

Axis letters: see `layers`; K number of layers in a mix.
"""

from collections.abc import Sequence

import tensorflow as tf

from modeling import layers
from modeling.choices import ALL_LAYERS, LAYERS_OF_MIXES
from modeling.config import BertConfig


@layers.registered
class LayerMix(layers.Layer):
    """Combines the encoder's layers to one vector for each wordpiece.

    `embeddings` is the input of the first block; all others combine outputs of
    blocks. The weighted ones are scale * sum_k softmax(weights)_k x_k, with
    trained weights and scale, which start at 0 and 1.

    Its variables are created on construction.

    Args:
      config: the encoder's configuration.
      mix: one of `choices.MIXES`.
      name: the layer's name.
      **kwargs: other arguments of a Keras layer, such as `dtype`.

    Attributes:
      output_size: H; 4H for concat_last_four.

    Raises:
      ValueError: an unknown mix, or the encoder has too few blocks for it.

    Source: the paper's table 7; Peters et al., "Deep contextualized word
      representations", arXiv:1802.05365, equation 1, for the weighted sum.
    """

    SETTINGS = ("mix",)

    def __init__(
        self, config: BertConfig, mix="last", *, name="layer_mix", **kwargs
    ):
        # The weights of the layers and their softmax are float32.
        super().__init__(config, name=name, autocast=False, **kwargs)
        blocks = config.num_hidden_layers
        if mix not in mixes_of(config):
            raise ValueError(
                f"mix of layers {mix!r}; a model with {blocks} blocks has "
                f"{', '.join(mixes_of(config))}. Take one of these."
            )
        self.mix = mix
        needed = LAYERS_OF_MIXES[mix]
        self._num_layers = blocks if needed == ALL_LAYERS else needed
        is_concat = mix.startswith("concat")
        self.output_size = config.hidden_size * (4 if is_concat else 1)
        self.build()

    def build(self, input_shape=None):
        """Creates weights [K] and scale [] of weighted mixes."""
        if self.mix.startswith("weighted"):
            self.layer_weights = self.new_zeros("weights", self._num_layers)
            self.scale = self.add_weight(
                name="scale", shape=(), initializer="ones"
            )

    def __call__(self, embedding_output, blocks=None, **kwargs):
        """Calls the layer; see `call`."""
        # Here, because the attention of a `BertOutput` may be () in training.
        if blocks is None:
            if not isinstance(embedding_output, tuple | list):
                raise ValueError(
                    f"{self.name} needs a BertOutput; leave the encoder's "
                    "output_key out."
                )
            embedding_output, blocks, *_ = embedding_output
        return super().__call__(embedding_output, blocks, **kwargs)

    def call(
        self,
        embedding_output: tf.Tensor,
        blocks: Sequence[tf.Tensor] | None = None,
    ) -> tf.Tensor:
        """Combines layers.

        Args:
          embedding_output: float [B, S, H]; or a `BertOutput`, without blocks.
          blocks: float [B, S, H] of each block, see `BertOutput`.

        Returns:
          Float [B, S, output_size].
        """
        if self.mix == "embeddings":
            return embedding_output
        taken = blocks[-self._num_layers :]
        if self.mix in ("last", "second_to_last"):
            return taken[0]
        if self.mix.startswith("concat"):
            return tf.concat(taken, axis=-1)
        if self.mix.startswith("sum"):
            return tf.add_n(taken)
        shares = tf.convert_to_tensor(self.scale) * tf.nn.softmax(
            tf.convert_to_tensor(self.layer_weights)
        )
        shares = tf.unstack(tf.cast(shares, taken[0].dtype))
        return tf.add_n([s * x for s, x in zip(shares, taken, strict=True)])


def mixes_of(config: BertConfig) -> tuple[str, ...]:
    """Returns the mixes for which a model has enough layers."""
    most, mixes = config.num_hidden_layers, LAYERS_OF_MIXES.items()
    return tuple(mix for mix, needed in mixes if needed <= most)
