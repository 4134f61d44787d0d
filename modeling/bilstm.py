"""The two-layer bidirectional LSTM of the paper's section 5.3.

One loop over time computes both directions. keras.layers.LSTM, once for each
direction, takes 1.2 to 1.7 times as long to train and 1.1 to 1.4 times to read,
and keeps memory cells in 16 bits under mixed precision.

Axis letters: see `layers`; W width of one direction, I width of the input.
Time is the first axis here.
"""

import keras
import tensorflow as tf

from modeling import layers
from modeling.kernels import block as kernels
from modeling.kernels.seeds import split_seed

NUM_LAYERS = 2
# Of each layer's input. The paper has no rate for it; this is the encoder's.
DROPOUT = 0.1


def lstm(gate_inputs: tf.Tensor, recurrent_kernels: tf.Tensor) -> tf.Tensor:
    """Runs an LSTM from the first time step to the last, in two directions.

    `gate_inputs`, float [S, 2, B, 4W], is the contribution of the inputs to the
    gates, in the order of Keras: input, forget, candidate, output.
    `recurrent_kernels`, float [2, W, 4W], multiply the previous state. Returns
    the states, float [S, 2, B, W] in the same dtype; memory cells are float32.

    Source: Hochreiter & Schmidhuber (1997); Gers et al. (2000), for the forget
      gate.
    """
    dtype = gate_inputs.dtype

    def advance(before, inputs):
        state, cell = before
        gates = inputs + tf.matmul(state, recurrent_kernels)
        write, keep, candidate, show = tf.split(
            tf.cast(gates, tf.float32), 4, axis=-1
        )
        cell = tf.sigmoid(keep) * cell + tf.sigmoid(write) * tf.tanh(candidate)
        return tf.cast(tf.sigmoid(show) * tf.tanh(cell), dtype), cell

    width = recurrent_kernels.shape[1]
    start = tf.zeros_like(gate_inputs[0, :, :, :width], tf.float32)
    states, _ = tf.scan(advance, gate_inputs, (tf.cast(start, dtype), start))
    return states


@layers.registered
class BiLSTMLayer(layers.Layer):
    """An LSTM from left to right and one from right to left, of width W."""

    SETTINGS = ("width",)

    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        # Their weights alone are used: kernel [I, 4W], recurrent_kernel
        # [W, 4W], bias [4W]. They drop nothing, so their seed has no effect.
        self.forward, self.backward = (
            keras.layers.LSTMCell(width, name=name, seed=0, **self.inherited)
            for name in ("forward", "backward")
        )

    def build(self, input_shape):
        """Builds for inputs [S, B, I]."""
        self.forward.build(input_shape)
        self.backward.build(input_shape)

    def call(self, x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Maps float [S, B, I], of lengths int32 [B], to [S, B, 2W]."""
        # Each text is reversed within its own length: a b c - - becomes
        # c b a - -. So padding comes last in both directions.
        inputs = [
            _gate_inputs(self.forward, x),
            _gate_inputs(self.backward, _reversed(x, lengths)),
        ]
        recurrent = [
            tf.convert_to_tensor(cell.recurrent_kernel)
            for cell in (self.forward, self.backward)
        ]
        states = lstm(tf.stack(inputs, axis=1), tf.stack(recurrent))
        from_left, from_right = states[:, 0], states[:, 1]
        return tf.concat([from_left, _reversed(from_right, lengths)], axis=-1)


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
        if input_mask is None:
            input_mask = tf.ones(tf.shape(x)[:2])
        lengths = tf.reduce_sum(tf.cast(input_mask, tf.int32), axis=1)
        x = tf.transpose(x, [1, 0, 2])
        seed = self.seed_of_call(training, dropout_seed)
        seeds = split_seed(seed, NUM_LAYERS)
        for layer, seed in zip(self.stack, seeds, strict=True):
            x = layer(layers.dropout(x, DROPOUT, seed), lengths)
        words = tf.transpose(x, [1, 0, 2])
        from_left, from_right = tf.split(words, 2, axis=-1)
        last = tf.gather(from_left, tf.maximum(lengths - 1, 0), batch_dims=1)
        return words, tf.concat([last, from_right[:, 0]], axis=-1)


def _gate_inputs(cell, x):
    """Returns what the inputs [S, B, I] add to the gates: [S, B, 4W]."""
    kernel, bias = map(tf.convert_to_tensor, (cell.kernel, cell.bias))
    rows = kernels.add_bias(tf.matmul(layers.as_rows(x), kernel), bias)
    return layers.shaped_like(rows, x)


def _reversed(x, lengths):
    """Reverses each text [S, B, any] within its length."""
    return tf.reverse_sequence(x, lengths, seq_axis=0, batch_axis=1)
