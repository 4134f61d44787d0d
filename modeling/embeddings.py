"""Wordpiece + segment + position embeddings (the paper's figure 2)."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from modeling import layers
from modeling.config import BertConfig


def require_pairs(config: BertConfig, what: str) -> None:
    """Raises ValueError for pairs of texts if a model has one segment type.

    `what` is the pair, or what makes pairs, for the error.
    """
    # Differs from the original: it gives the second text the embedding 0,
    # because one_hot has no row for segment 1.
    if config.type_vocab_size < 2:
        raise ValueError(
            f"{what}: a pair of texts needs two segment types, but the model "
            "has one (type_vocab_size 1). Give single texts, or another model."
        )


def as_ids(values: Any, name: str, most: int | None = None) -> tf.Tensor:
    """Converts ids of any dtype to int32 [B, S] and checks rank and length.

    `most` is the largest S; None = no limit. Raises ValueError for texts and
    other shapes.
    """
    if isinstance(values, tf.RaggedTensor):
        raise ValueError(
            f"{name} is ragged; call .to_tensor(), and give an input_mask."
        )
    values = tf.convert_to_tensor(values)
    if values.dtype == tf.string:
        raise ValueError(f"{name} holds texts, not ids; tokenize them first.")
    if values.shape.rank not in (2, None):
        raise ValueError(
            f"{name} has the shape {values.shape}; expected [batch, length]."
        )
    length = values.shape[1] if values.shape.rank else None
    if most and length and length > most:
        raise ValueError(
            f"{name} is {length} wordpieces long, but the model has "
            f"{most} positions (max_position_embeddings); cut the texts."
        )
    return tf.cast(values, tf.int32)


class IdsLayer(layers.DropoutLayer):
    """Base of the layers that take ids.

    A call raises ValueError if ids are floats of 16 bits, which rounds them.
    Without `keras.Input`, a `keras.Sequential` makes an input of its first
    layer's compute dtype, and a model casts float ids to it.
    """

    def __call__(self, input_ids, *args, **kwargs):
        """Calls the layer; see `call`."""
        for x in tf.nest.flatten(input_ids):
            dtype = getattr(x, "dtype", None)
            if dtype in ("float16", "bfloat16"):
                dtype = keras.backend.standardize_dtype(dtype)
                raise ValueError(
                    f"{self.name} gets ids of {dtype}, which rounds them; give "
                    "int32 ids, for an input "
                    'keras.Input([None], dtype="int32").'
                )
        return super().__call__(input_ids, *args, **kwargs)


@layers.registered
class Embeddings(IdsLayer):
    """Adds three embeddings; applies layer norm and dropout.

    Args:
      config: the model's sizes.
      use_one_hot_embeddings: compute word embeddings as a matrix product with
        one-hot rows: the same values, faster on TPU, much slower on CPU.
      seed: see `layers.DropoutLayer`.

    Source: `modeling.embedding_lookup`, `modeling.embedding_postprocessor`.
    """

    SETTINGS = ("use_one_hot_embeddings", "seed")

    def __init__(
        self,
        config: BertConfig,
        *,
        use_one_hot_embeddings=False,
        name="embeddings",
        **kwargs,
    ):
        # Keras would round ids that are floats to 16 bits.
        super().__init__(config, name=name, autocast=False, **kwargs)
        self.use_one_hot_embeddings = use_one_hot_embeddings
        self.layer_norm = layers.LayerNorm(name="LayerNorm", **self.inherited)
        self._given = threading.local()  # other threads look words up

    def build(self, input_shape=None):
        """Creates the tables [V, E], [segments, E], [positions, E]."""
        config = self.config

        def table(kind, rows):
            shape = rows, config.embedding_width
            # Keras would cast the whole table for every lookup.
            how = {"stddev": config.initializer_range, "autocast": False}
            return self.new_random(f"{kind}_embeddings", shape, **how)

        self.word_embeddings = table("word", config.vocab_size)
        self.token_type_embeddings = table("token_type", config.type_vocab_size)
        self.position_embeddings = table(
            "position", config.max_position_embeddings
        )
        self.layer_norm.build((None, config.embedding_width))

    @contextlib.contextmanager
    def given(self, vectors: tf.Tensor) -> Iterator[None]:
        """In its `with` block, `vectors` replace the looked-up word embeddings.

        They are float [B, S, E]; their gradients give attributions.
        """
        self._given.vectors = vectors
        try:
            yield
        finally:
            del self._given.vectors

    def call(
        self,
        input_ids: tf.Tensor,
        token_type_ids: tf.Tensor | None = None,
        dropout_seed: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Embeds wordpiece ids and segment ids (None = all 0), int32 [B, S].

        Returns float [B, S, E] in the compute dtype.
        """
        most = self.config.max_position_embeddings
        input_ids = as_ids(input_ids, "input_ids", most)
        if token_type_ids is None:
            token_type_ids = tf.zeros_like(input_ids)
        token_type_ids = as_ids(token_type_ids, "token_type_ids")
        seed = self.seed_of_call(training, dropout_seed)
        words = tf.convert_to_tensor(self.word_embeddings)
        if hasattr(self._given, "vectors"):
            x = self._given.vectors
        elif self.use_one_hot_embeddings:
            table = tf.cast(words, self.compute_dtype)
            x = tf.cast(self._one_hot_lookup(table, input_ids), words.dtype)
        else:
            x = tf.gather(words, input_ids)
        # With few rows, the matrix product is faster on every device.
        x += self._one_hot_lookup(
            tf.convert_to_tensor(self.token_type_embeddings), token_type_ids
        )
        seq_length = tf.shape(input_ids)[1]
        x += tf.convert_to_tensor(self.position_embeddings)[:seq_length]
        x = tf.cast(self.layer_norm(x), self.compute_dtype)
        return layers.dropout(x, self.config.hidden_dropout_prob, seed)

    def _one_hot_lookup(self, table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        """Looks ids [B, S] up in a table [rows, H]: float [B, S, H]."""
        one_hot = tf.one_hot(
            tf.reshape(ids, [-1]), tf.shape(table)[0], dtype=table.dtype
        )
        shape = tf.concat([tf.shape(ids), [table.shape[-1]]], axis=0)
        return tf.reshape(tf.matmul(one_hot, table), shape)
