"""BertModel, the encoder: wordpiece ids to vectors of wordpieces and texts."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import keras
import tensorflow as tf

from modeling import checkpoints, layers
from modeling.attention import attention_bias
from modeling.checkpoints.model_folder import find
from modeling.choices import EMBEDDINGS, require_one_of
from modeling.config import BertConfig
from modeling.embeddings import Embeddings, IdsLayer, as_ids
from modeling.transformer import Encoder

# What a `BertModel` gives instead of a `BertOutput` if it has an `output_key`.
OUTPUT_KEYS = (
    "sequence_output",
    "pooled_output",
    "embedding_output",
    "embedding_table",
)


class BertOutput(NamedTuple):
    """The encoder's outputs for a batch.

    Attributes:
      embedding_output: float [B, S, H], the input of the first block.
      all_encoder_layers: float [B, S, H] for each block; [B, 1 + P, H] for the
        last one if the caller passed P positions.
      pooled_output: float [B, H], tanh(dense(first wordpiece)); from the last
        real wordpiece if the configuration is left_to_right. An ELECTRA has no
        such layer: the last block's output for the first wordpiece.
      attention_probs: float [B, N, S, S] for each block, queries on the third
        axis and keys on the fourth; [B, N, 1 + P, S] for the last one if the
        caller passed P positions, unless `whole_last_layer`; () in training
        with gradient checkpointing.
    """

    embedding_output: tf.Tensor
    all_encoder_layers: tuple[tf.Tensor, ...]
    pooled_output: tf.Tensor
    attention_probs: tuple[tf.Tensor, ...]

    def layer(self, layer: int | str) -> tf.Tensor:
        """Returns the output of one layer, float [B, S, H].

        `layer` is the index of a block, from 0, or from -1 at the end; or
        `EMBEDDINGS`, the input of the first block.
        """
        if layer == EMBEDDINGS:
            return self.embedding_output
        return self.all_encoder_layers[layer]

    # The original's accessors.
    def get_pooled_output(self) -> tf.Tensor:
        """Float [B, H]."""
        return self.pooled_output

    def get_sequence_output(self) -> tf.Tensor:
        """Float [B, S or 1 + P, H], the last block's output."""
        return self.all_encoder_layers[-1]

    def get_all_encoder_layers(self) -> tuple[tf.Tensor, ...]:
        """Float [B, S, H] for each block; see the class."""
        return self.all_encoder_layers

    def get_embedding_output(self) -> tf.Tensor:
        """Float [B, S, H]."""
        return self.embedding_output


@layers.registered
class Pooler(layers.Layer):
    """tanh(dense(first wordpiece)): one vector for the whole text.

    `BertModel` passes the last real wordpiece instead if the configuration is
    left_to_right.
    """

    def __init__(self, config: BertConfig, *, name="pooler", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.dense = self.new_dense(config.hidden_size, "tanh")

    def build(self, input_shape):
        """Builds for inputs [B, S, H]."""
        self.dense.build((None, input_shape[-1]))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [B, S, H] to [B, H]."""
        return self.dense(x[:, 0])


@layers.registered
class BertModel(IdsLayer):
    """The encoder of the paper's section 3.

    Its variables are created on construction: the configuration has all sizes.

    Example:
      bert = BertModel(BertConfig.from_json_file("bert_config.json"))
      output = bert(input_ids, input_mask, token_type_ids)
      output.get_pooled_output()  # [B, H]

    In a Keras model, `training` means dropout, and the inputs may be a dict
    with the original's names: `input_ids`, `input_mask`, `segment_ids`.

    Args:
      config: the model's sizes.
      dtype: `float32`; or `mixed_bfloat16` or `mixed_float16` to compute in 16
        bits, but weights, layer norm and softmax in float32.
      use_one_hot_embeddings: see `Embeddings`.
      gradient_checkpointing: see `Encoder`.
      whole_last_layer: see `Encoder`.
      embeddings: another encoder's, which both then train; None = its own.
      seed: see `layers.DropoutLayer`.
      output_key: one of `OUTPUT_KEYS`, the only output, as `keras.Sequential`
        needs it; None gives a `BertOutput`.
      trainable: False gives the weights no gradient, except those of
        `embeddings`. A single block: `bert.encoder.blocks[0].trainable`.
      name: first part of every variable's name in a checkpoint; None = that of
        the configuration, `bert` or `electra`.

    Raises:
      ValueError: an unknown `output_key`.

    Source: `modeling.BertModel`.
    """

    SETTINGS = (*Embeddings.SETTINGS, *Encoder.SETTINGS, "output_key")

    def __init__(
        self,
        config: BertConfig,
        *,
        dtype: str | None = None,
        use_one_hot_embeddings: bool = False,
        gradient_checkpointing: bool = False,
        whole_last_layer: bool = False,
        embeddings: Embeddings | None = None,
        output_key: str | None = None,
        seed: int | None = None,
        trainable: bool = True,
        name: str | None = None,
    ):
        # Keras would round ids that are floats to 16 bits.
        super().__init__(
            config,
            name=name or config.encoder_name,
            dtype=dtype,
            seed=seed,
            trainable=trainable,
            autocast=False,
        )
        self.use_one_hot_embeddings = use_one_hot_embeddings
        self.gradient_checkpointing = gradient_checkpointing
        self.whole_last_layer = whole_last_layer
        self.output_key = _known(output_key)
        options = {**self.inherited, "seed": self.seed_generator}
        self.embeddings = embeddings or Embeddings(
            config, use_one_hot_embeddings=use_one_hot_embeddings, **options
        )
        self.embeddings_project = _projection(config, **self.inherited)
        self.encoder = Encoder(
            config,
            gradient_checkpointing=gradient_checkpointing,
            whole_last_layer=whole_last_layer,
            **options,
        )
        has_pooler = not config.electra
        self.pooler = Pooler(config, **self.inherited) if has_pooler else None
        self.build()

    @classmethod
    def from_folder(cls, folder: str, **options: Any) -> Self:
        """Loads the encoder of a folder; `modeling.load` loads its heads, too.

        For the folder and what is refused see `checkpoints.model_folder.find`;
        `options` are other arguments of the class.
        """
        found = find(folder)
        shapes = checkpoints.open_checkpoint(found.weights).shapes
        with layers.loaded_later(shapes):
            bert = cls(found.read_config(), **options)
        # A name, or a Keras scope around it, is not in the checkpoint's names.
        # Embeddings of another encoder have its name.
        named, scope = {}, bert.config.encoder_name
        scopes = {
            f"{bert.path}/": f"{scope}/",
            f"{bert.embeddings.path}/": f"{scope}/embeddings/",
        }
        for name, variable in checkpoints.variables_by_name([bert]).items():
            for own, known in scopes.items():
                if name.startswith(own):
                    name = known + name.removeprefix(own)
            named[name] = variable
        checkpoints.init_from_checkpoint(found.weights, named).log()
        return bert

    def get_config(self):
        """Returns the constructor's arguments; a copy has its own tables."""
        return super().get_config() | {"embeddings": None}

    def build(self, input_shape=None):
        """Creates every variable."""
        if not self.embeddings.built:
            self.embeddings.build()
        if self.embeddings_project:
            self.embeddings_project.build((None, self.config.embedding_width))
        width = (None, self.config.hidden_size)
        self.encoder.build(width)
        if self.pooler:
            self.pooler.build(width)

    def call(
        self,
        input_ids: tf.Tensor | Mapping[str, tf.Tensor],
        input_mask: tf.Tensor | None = None,
        token_type_ids: tf.Tensor | None = None,
        dropout_seed: tf.Tensor | None = None,
        positions: tf.Tensor | None = None,
        training: bool | None = None,
        output_key: str | None = None,
    ) -> BertOutput | tf.Tensor:
        """Encodes a batch.

        Args:
          input_ids: int32 [B, S], wordpiece ids; or a dict of `input_ids`,
            `input_mask` and `segment_ids` or `token_type_ids`, of which all but
            the ids may be missing.
          input_mask: bool or number [B, S]; True or 1 = real, 0 = padding; None
            = all real. Or [B, S, S]: which keys (third axis) each query may
            see; a real wordpiece sees at least itself.
          token_type_ids: int32 [B, S], segment ids; None = all 0.
          dropout_seed: int32 [2]; the same seed drops the same elements. None =
            no dropout, unless `training`.
          positions: int32 [B, P], each in 0 .. S - 1: the positions of the last
            block's output, after that of the wordpiece which the pooler reads.
            None = all.
          training: True, which Keras passes in `fit`, applies dropout with a
            new seed for each call if `dropout_seed` is None. With a
            `dropout_seed` it has no effect.
          output_key: as in the constructor, for this call.

        Returns:
          A `BertOutput`; with an `output_key` that output, a tensor.

        Raises:
          ValueError: inputs of other shapes, a dict with other names, or an
            unknown `output_key`.
        """
        output_key = _known(output_key) or self.output_key
        if output_key == "embedding_table":
            return tf.convert_to_tensor(self.get_embedding_table())
        input_ids, input_mask, token_type_ids = self._inputs(
            input_ids, input_mask, token_type_ids
        )
        seeds = self.seeds_of_call(training, dropout_seed, 2)
        embedded = self.embeddings(input_ids, token_type_ids, seeds[0])
        if self.embeddings_project:
            embedded = self.embeddings_project(embedded)
        outputs, attention_probs, text = self._encode(
            embedded, input_mask, seeds[1], positions
        )
        pooled = self.pooler(text) if self.pooler else text[:, 0]
        output = BertOutput(embedded, outputs, pooled, attention_probs)
        return getattr(output, f"get_{output_key}")() if output_key else output

    def _encode(self, embedded, input_mask, seed, positions):
        """Runs the blocks; the third result is what the pooler reads."""
        looks_back = self.config.left_to_right
        bias = attention_bias(input_mask, left_to_right=looks_back)
        wanted = positions
        if positions is not None and looks_back:
            positions = tf.cast(positions, tf.int32)
            wanted = tf.concat([_last_real(input_mask), positions], axis=1)
        elif positions is not None:
            wanted = tf.pad(positions, [[0, 0], [1, 0]])
        outputs, attention_probs = self.encoder(embedded, bias, seed, wanted)
        text = outputs[-1]
        if positions is None and looks_back:
            text = tf.gather(text, _last_real(input_mask), batch_dims=1)
        return outputs, attention_probs, text

    def _inputs(self, input_ids, input_mask, token_type_ids):
        """Returns ids, mask and segment ids; see `call` for their shapes."""
        if isinstance(input_ids, Mapping):
            if input_mask is not None or token_type_ids is not None:
                raise ValueError(
                    f"{self.name}: give all inputs in the dict, or none."
                )
            input_ids, input_mask, token_type_ids = _of_dict(input_ids)
        most = self.config.max_position_embeddings
        input_ids = as_ids(input_ids, "input_ids", most)
        if input_mask is None:
            input_mask = tf.ones_like(input_ids)
        if token_type_ids is None:
            token_type_ids = tf.zeros_like(input_ids)
        input_mask = tf.convert_to_tensor(input_mask)
        token_type_ids = tf.cast(token_type_ids, tf.int32)
        given = {"input_mask": input_mask, "token_type_ids": token_type_ids}
        for name, value in given.items():
            expected = input_ids.shape
            if name == "input_mask" and value.shape.rank == 3:
                expected = expected.concatenate(expected[1:])
            if not expected.is_compatible_with(value.shape):
                raise ValueError(
                    f"{name} has the shape {value.shape}, but input_ids has "
                    f"{input_ids.shape}; give one value for each id."
                )
        return input_ids, input_mask, token_type_ids

    def get_embedding_table(self) -> keras.Variable:
        """The word embedding table, float32 [V, E]."""
        return self.embeddings.word_embeddings


def encoder_of(
    config: BertConfig, *, dtype: str = "float32", **options: Any
) -> BertModel:
    """Makes an objective's encoder, in float32 whatever Keras's policy is."""
    return BertModel(config, dtype=dtype, **options)


def _projection(config, **options):
    """Returns the layer from embeddings to hidden_size; None = same width."""
    if config.embedding_width == config.hidden_size:
        return None
    # As in ELECTRA, its initializer does not depend on the configuration.
    return layers.Dense(
        config.hidden_size, stddev=None, name="embeddings_project", **options
    )


def _last_real(input_mask):
    """Returns the position of each row's last real wordpiece, int32 [B, 1]."""
    # The paper does not say where its left-to-right model reads a text. [CLS],
    # which is first, sees only itself; the last wordpiece sees the whole text.
    places = tf.range(tf.shape(input_mask)[1])
    is_real = tf.cast(tf.cast(input_mask, tf.bool), tf.int32)
    if input_mask.shape.rank == 3:
        is_real = tf.linalg.diag_part(is_real)
    return tf.reduce_max(is_real * places, axis=1, keepdims=True)


def _known(output_key):
    """Returns an output key or None; raises ValueError for an unknown one."""
    if output_key is not None:
        require_one_of(OUTPUT_KEYS, "output_key", output_key)
    return output_key


def _of_dict(inputs):
    """Returns ids, mask and segment ids of a dict; None for missing ones."""
    names = {*inputs}
    segments = {"segment_ids", "token_type_ids"} & names
    unknown = names - {"input_ids", "input_mask"} - segments
    if "input_ids" not in names or unknown or len(segments) > 1:
        raise ValueError(
            f"a dict of {', '.join(sorted(map(str, names))) or 'nothing'}; "
            "expected input_ids and, if you have them, input_mask (1 = real) "
            "and one of segment_ids and token_type_ids. Leave others out."
        )
    of_segments = inputs[segments.pop()] if segments else None
    return inputs["input_ids"], inputs.get("input_mask"), of_segments
