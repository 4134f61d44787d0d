"""The two-layer bidirectional LSTM of the paper's section 5.3.

Keras reads each direction in a loop of its own: on a CPU a step of training
takes 1.6 times as long as with one loop for both.

Axis letters: see `layers`; W width of one direction, I width of the input.
"""

import keras
import tensorflow as tf

from modeling import layers

NUM_LAYERS = 2
# Of each layer's input. The paper has no rate for it; this is the encoder's.
DROPOUT = 0.1


@layers.registered
class BiLSTMLayer(layers.Layer):
    """An LSTM from left to right and one from right to left, of width W.

    They compute in float32 under every policy, because cell states accumulate
    values that 16 bits would round away.
    """

    SETTINGS = ("width",)

    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        options = self.inherited | {"dtype": "float32"}
        # They drop nothing, so their seed has no effect.
        self.forward, self.backward = (
            keras.layers.LSTMCell(width, name=name, seed=0, **options)
            for name in ("forward", "backward")
        )
        self.readers = [
            keras.layers.RNN(
                cell,
                return_sequences=True,
                go_backwards=cell is self.backward,
                name=f"{cell.name}_reader",
                **options,
            )
            for cell in (self.forward, self.backward)
        ]

    def build(self, input_shape):
        """Creates kernel [I, 4W], recurrent_kernel [W, 4W] and bias [4W]."""
        for cell in (self.forward, self.backward):
            cell.build((None, input_shape[-1]))

    def call(
        self, x: tf.Tensor, input_mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Maps float [B, S, I] to the states, [B, S, 2W].

        At padding a state stays what it was before, see `BiLSTM.call`.
        """
        left, right = (read(x, mask=input_mask) for read in self.readers)
        states = tf.concat([left, tf.reverse(right, [1])], axis=-1)
        return tf.cast(states, self.compute_dtype)


@layers.registered
class BiLSTM(layers.DropoutLayer):
    """Two layers of `BiLSTMLayer`.

    Its variables are created on construction. The paper's "768-dimensional" is
    taken as the width of each direction.

    Args:
      input_size: I.
      width: W; the paper's is the encoder's hidden size.
      name: first part of every variable's name in a checkpoint.
      **kwargs: `seed`, see `layers.DropoutLayer`, and other arguments of a
        Keras layer, such as `dtype`.

    Attributes:
      output_size: 2W.
    """

    SETTINGS = ("input_size", "width", "seed")

    def __init__(self, input_size, width, *, name="bilstm", **kwargs):
        super().__init__(name=name, **kwargs)
        self.input_size = input_size
        self.width = width
        self.output_size = 2 * width
        self.stack = [
            BiLSTMLayer(width, name=f"layer_{i}", **self.inherited)
            for i in range(NUM_LAYERS)
        ]
        self.build()

    def build(self, input_shape=None):
        """Creates every variable."""
        size = self.input_size
        for layer in self.stack:
            layer.build((None, None, size))
            size = self.output_size

    def call(
        self,
        x: tf.Tensor,
        input_mask: tf.Tensor | None = None,
        dropout_seed: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads a batch, float [B, S, I], in both directions.

        The mask is of bool or numbers, [B, S], with all padding last; True or 1
        is real, None = all real. Returns the states of both directions at each
        wordpiece, float [B, S, 2W]; and their last states, float [B, 2W]: from
        the left the state at the last real wordpiece, from the right the state
        at the first.
        """
        seeds = self.seeds_of_call(training, dropout_seed, NUM_LAYERS)
        for layer, seed in zip(self.stack, seeds, strict=True):
            x = layer(layers.dropout(x, DROPOUT, seed), input_mask)
        from_left, from_right = tf.split(x, 2, axis=-1)
        return x, tf.concat([from_left[:, -1], from_right[:, 0]], axis=-1)
