"""Base classes, dense layer, layer norm and dropout, which all layers use.

Axis letters of this folder: B batch, S sequence, P predictions per sequence,
N heads, D width of a head, H hidden, V vocabulary, E width of the embeddings, H
except in some ELECTRA models; M = B * S rows when batch and sequence are
flattened into one matrix. A layer that maps [M, H] to [M, any] also maps
[B, S, H] to [B, S, any].

Layers have the names of the original's variable scopes, so that a variable's
path (`bert/encoder/layer_0/attention/self/query/kernel`) is its name in a
checkpoint. Weights are float32; with the policy `mixed_bfloat16` Keras casts
them where they are used.
"""

import contextvars
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from modeling.config import BertConfig, activation_name
from modeling.kernels import block as kernels
from modeling.kernels.scopes import during
from modeling.kernels.seeds import dropout_draws, fold_in, split_seed

# Keras finds the class of a saved layer by this name and the class's.
registered = keras.saving.register_keras_serializable("bert")
_NUMBER = (int, float, np.generic)
# Names of variables, see `loaded_later`.
_loaded = contextvars.ContextVar("loaded", default=())


def loaded_later(names: Collection[str]):
    """In its `with` block, variables of these names are 0, not drawn.

    A checkpoint replaces them. To draw 110 million values takes seconds.
    """
    return during(_loaded, names)


def initializer(stddev: float | None) -> keras.initializers.Initializer:
    """Returns the original's initializer, cut at two standard deviations.

    `stddev` is that before the cut; None = Glorot's uniform, Keras's default.
    """
    if stddev is None:
        return keras.initializers.GlorotUniform()
    return keras.initializers.TruncatedNormal(stddev=stddev)


def activate(x: tf.Tensor, hidden_act: str) -> tf.Tensor:
    """Applies one of `config.ACTIVATIONS`, in any case; None is linear.

    Source: `modeling.gelu`, `modeling.get_activation`.
    """
    return kernels.activate(x, name=activation_name(hidden_act))


def dropout(x: tf.Tensor, rate: float, seed: tf.Tensor | None) -> tf.Tensor:
    """Drops random elements and scales the others by 1 / (1 - rate).

    The same seed, int32 [2], drops the same elements, so that a resumed run
    repeats an uninterrupted one exactly. None drops nothing. `rate` is the
    share of elements set to 0.
    """
    draws = dropout_draws(x, seed, rate)
    return x if draws is None else kernels.drop(x, draws, rate=rate)


def as_rows(x: tf.Tensor) -> tf.Tensor:
    """Flattens [B, S, H] to [M, H]; a matrix stays as it is."""
    return x if x.shape.rank == 2 else tf.reshape(x, [-1, x.shape[-1]])


def shaped_like(rows: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Undoes `as_rows(x)` for rows [M, any]."""
    if x.shape.rank == 2:
        return rows
    shape = tf.concat([tf.shape(x)[:-1], [rows.shape[-1]]], axis=0)
    return tf.reshape(rows, shape)


class Layer(keras.layers.Layer):
    """Base of all layers: Keras saves it, and lists of numbers are inputs.

    Args:
      config: the model's sizes, for layers that depend on them.

    Attributes:
      SETTINGS: names of the constructor's other arguments, which are attributes
        of the same names.
    """

    SETTINGS: tuple[str, ...] = ()

    def __init__(self, config: BertConfig | None = None, **kwargs):
        super().__init__(**kwargs)
        self.config = config

    def __call__(self, *args, **kwargs):
        """Calls the layer, with a tensor for each nested list of numbers."""
        return super().__call__(
            *(self._tensor(x) for x in args),
            **{name: self._tensor(x) for name, x in kwargs.items()},
        )

    @property
    def inherited(self) -> dict[str, Any]:
        """Arguments of the constructors of layers within this one."""
        return {"dtype": self.dtype_policy, "trainable": self.trainable}

    def new_dense(
        self, units: int, activation: str = "linear", name: str = "dense"
    ) -> "Dense":
        """Returns a dense layer with the initializer of `self.config`."""
        return Dense(
            units,
            stddev=self.config.initializer_range,
            activation=activation,
            name=name,
            **self.inherited,
        )

    def new_random(
        self, name: str, shape: tuple[int, ...], stddev: float | None, **options
    ) -> keras.Variable:
        """Creates a random weight, see `loaded_later`; call it in `build`."""
        draw, loaded = initializer(stddev), _loaded.get()
        how = {"initializer": "zeros" if loaded else draw, "shape": shape}
        variable = self.add_weight(name=name, **how, **options)
        if loaded and variable.path not in loaded:
            variable.assign(draw(shape, variable.dtype))
        return variable

    def new_zeros(self, name: str, size: int) -> keras.Variable:
        """Creates a variable [size], which starts at 0; call it in `build`."""
        return self.add_weight(name=name, shape=(size,), initializer="zeros")

    def get_config(self):
        """Returns the constructor's arguments and what is frozen, for Keras."""
        config = super().get_config()
        if self.config:
            config["config"] = self.config.to_dict()
        config |= {name: getattr(self, name) for name in self.SETTINGS}
        config["trainable_parts"] = {
            path: part.trainable
            for path, part, owner in _parts(self)
            if part.trainable != owner.trainable
        }
        return config

    @classmethod
    def from_config(cls, config):
        """Creates the layer of a `get_config`."""
        config = dict(config)
        trainable = config.pop("trainable_parts", {})
        if "config" in config:
            config["config"] = BertConfig.from_dict(config["config"])
        layer = super().from_config(config)
        for path, part, owner in _parts(layer):
            part.trainable = trainable.get(path, owner.trainable)
        return layer

    def _tensor(self, value: Any) -> Any:
        """Makes nested lists of numbers a tensor, also within a dict."""
        if isinstance(value, Mapping):
            return {name: self._tensor(x) for name, x in value.items()}
        if not isinstance(value, (list, tuple)):
            return value
        numbers = tf.nest.flatten(value)
        if not numbers or not all(isinstance(x, _NUMBER) for x in numbers):
            return value
        try:
            return tf.convert_to_tensor(value)
        except ValueError:
            lengths = ", ".join(map(str, _row_lengths(value)))
            raise ValueError(
                f"{self.name}: the rows of a list have different lengths "
                f"({lengths}); pad them, and give an input_mask with 0 there."
            ) from None


def _row_lengths(rows: Iterable[Any]) -> list[int]:
    """Returns the lengths of nested lists at the first depth they differ."""
    rows = (row.tolist() if hasattr(row, "tolist") else row for row in rows)
    lists = [row for row in rows if isinstance(row, (list, tuple))]
    lengths = sorted({len(row) for row in lists})
    if len(lengths) == 1:
        return _row_lengths(itertools.chain(*lists)) or lengths
    return lengths


def _parts(
    layer: keras.layers.Layer, path: str = ""
) -> Iterator[tuple[str, keras.layers.Layer, keras.layers.Layer]]:
    """Yields path, layer and owner of the layers within one, owners first."""
    for part in layer._flatten_layers(include_self=False, recursive=False):
        yield path + part.name, part, layer
        yield from _parts(part, f"{path}{part.name}/")


class DropoutLayer(Layer):
    """Base of the layers that drop random elements in training.

    A call takes `dropout_seed`, int32 [2], and `training`, of which True
    applies dropout; see `BertModel.call`.

    Args:
      seed: whole number, the start of the random numbers; None takes one from
        NumPy's generator, which `keras.utils.set_random_seed` sets. Or the
        `keras.random.SeedGenerator` of the layer that contains this one.

    Attributes:
      seed_generator: gives the seeds of calls with `training=True` and without
        a `dropout_seed`. Its variable is not among the layer's `weights`.
    """

    SETTINGS = ("seed",)

    def __init__(
        self,
        config: BertConfig | None = None,
        *,
        seed: int | keras.random.SeedGenerator | None = None,
        **kwargs,
    ):
        super().__init__(config, **kwargs)
        self.seed = None
        if not isinstance(seed, keras.random.SeedGenerator):
            self.seed = seed
            if seed is None:
                # Keras would take it from Python's generator, which also gives
                # the seeds of the initial weights, and so change them.
                seed = int(np.random.randint(1, 10**9))
            seed = keras.random.SeedGenerator(seed)
        self.seed_generator = seed

    def seed_of_call(
        self, training: bool | None, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor | None:
        """Returns `dropout_seed`, int32 [2], or a new seed if `training`.

        None = no dropout, because neither is given.
        """
        if dropout_seed is not None or not training:
            return dropout_seed
        seed = tf.cast(self.seed_generator.next(), tf.int32)
        replica = tf.distribute.get_replica_context()
        if replica and replica.num_replicas_in_sync > 1:
            # The generator has the same state on each device.
            seed = fold_in(seed, replica.replica_id_in_sync_group)
        return seed

    def seeds_of_call(
        self, training: bool | None, dropout_seed: tf.Tensor | None, num: int
    ) -> list[tf.Tensor | None]:
        """Derives `num` seeds from that of `seed_of_call`."""
        return split_seed(self.seed_of_call(training, dropout_seed), num)


@registered
class Dense(Layer):
    """x @ kernel + bias on a matrix, then an activation.

    It computes on matrices, because a CPU fuses matrix product, bias and
    activation into one kernel only for them.

    Args:
      units: width of the output.
      stddev: standard deviation of the kernel's initializer, see
        `initializer`; the bias starts at 0.
      activation: see `activate`.
    """

    SETTINGS = ("units", "stddev", "activation")

    def __init__(self, units, *, stddev, activation="linear", **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.stddev = stddev
        self.activation = activation

    def build(self, input_shape):
        """Creates kernel [in, units] and bias [units]."""
        shape = input_shape[-1], self.units
        self.kernel = self.new_random("kernel", shape, self.stddev)
        self.bias = self.new_zeros("bias", self.units)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps float [M, in] to [M, units]."""
        product = tf.matmul(as_rows(x), tf.convert_to_tensor(self.kernel))
        biased = kernels.add_bias(product, tf.convert_to_tensor(self.bias))
        return shaped_like(activate(biased, self.activation), x)


@registered
class LayerNorm(Layer):
    """Layer normalization over the last axis, in float32.

    In 16 bits, the epsilon of 1e-12 would have no effect, so the arithmetic and
    the parameters are float32 under every policy. Only `Form.KERNELS` rounds
    the parameters to the dtype of oneDNN's kernel.

    Source: `modeling.layer_norm` (tf.contrib.layers.layer_norm).
    """

    EPSILON = 1e-12

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)

    def build(self, input_shape):
        """Creates gamma [H] = 1 and beta [H] = 0."""
        # Keras heeds the layer's own `autocast` only within another layer.
        how = {"shape": (input_shape[-1],), "autocast": False}
        self.gamma = self.add_weight(name="gamma", initializer="ones", **how)
        self.beta = self.add_weight(name="beta", initializer="zeros", **how)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Normalizes float [M, H] or [B, S, H]; keeps shape and dtype."""
        return kernels.layer_norm(x, *self.parameters)

    @property
    def parameters(self) -> tuple[tf.Tensor, tf.Tensor, float]:
        """Gamma, beta and epsilon, as `kernels.layer_norm` takes them."""
        # float32 also where the policy has variables of 16 bits.
        gamma, beta = (tf.cast(x, tf.float32) for x in (self.gamma, self.beta))
        return gamma, beta, self.EPSILON
