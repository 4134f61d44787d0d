"""BertConfig: the sizes of a model, as the released JSON files state them."""

import dataclasses
import difflib
import json
from typing import Any

from modeling import huggingface_config

ACTIVATIONS = ("gelu", "gelu_exact", "relu", "tanh", "linear")

# Keys of released configurations (multilingual, Chinese, whole-word-masking
# cased) that change nothing in the model; they are kept for the round trip.
RELEASED_EXTRA_KEYS = frozenset(
    {
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig:
    """Sizes and rates of a BERT encoder.

    Attributes:
      vocab_size: number of wordpieces (rows of the word embedding table).
      hidden_size: width H of every layer's output.
      num_hidden_layers: number of Transformer blocks.
      num_attention_heads: heads N of each block; divides hidden_size.
      intermediate_size: width of the feed-forward layer.
      hidden_act: `gelu` is the tanh approximation (the original since
        February 2019), `gelu_exact` the erf form (its checkpoints of 2018,
        and what Hugging Face calls `gelu`); `relu`, `tanh`, `linear`.
      hidden_dropout_prob: dropout rate of embeddings and layer outputs.
      attention_probs_dropout_prob: dropout rate of attention probabilities.
      max_position_embeddings: longest sequence, in wordpieces.
      type_vocab_size: number of segment ids.
      initializer_range: standard deviation of the truncated normal
        initializer.
      left_to_right: True hides later positions from earlier ones (the
        paper's section 5.1, "LTR & No NSP").
      extra: further keys of released JSON files, kept but unused.

    Source: `modeling.BertConfig`.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 16
    initializer_range: float = 0.02
    left_to_right: bool = False
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        for name in _INTEGERS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name} is {value!r}; give a whole number.")
            if value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1.")
        for name in _RATES:
            rate = getattr(self, name)
            if isinstance(rate, bool) or not isinstance(rate, (int, float)):
                raise ValueError(f"{name} is {rate!r}; give a number.")
            if not 0.0 <= rate < 1.0:
                raise ValueError(
                    f"{name} is {rate}; it must be at least 0 and below 1."
                )
        if not isinstance(self.left_to_right, bool):
            raise ValueError(
                f"left_to_right is {self.left_to_right!r}; give true or false."
            )
        if self.hidden_size % self.num_attention_heads:
            heads = self.num_attention_heads
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of "
                f"num_attention_heads {heads}; take hidden_size "
                f"{self.hidden_size // heads * heads or heads} or another "
                "number of heads (released models have hidden_size / 64)."
            )
        if activation_name(self.hidden_act) not in ACTIVATIONS:
            raise ValueError(
                f"hidden_act is {self.hidden_act!r}; one of "
                f"{', '.join(ACTIVATIONS)} is expected (gelu is the tanh "
                "form, gelu_exact the erf form)."
            )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "BertConfig":
        """Builds a configuration from the keys of a JSON file.

        Args:
          values: keys as in `bert_config.json`; missing ones take the
            defaults of the original release.

        Returns:
          The configuration.

        Raises:
          ValueError: an unknown key (the nearest known one is named), no
            vocab_size, or sizes that do not fit each other.
        """
        known = {f.name for f in dataclasses.fields(cls)} - {"extra"}
        extra = {k: v for k, v in values.items() if k in RELEASED_EXTRA_KEYS}
        for key in values.keys() - known - extra.keys():
            # Differs from the original: it takes any key, so that a misspelt
            # one silently leaves the default in force.
            near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0)
            raise ValueError(
                f"unknown key {key!r} in the BERT configuration; the nearest "
                f"known one is {near[0]!r}. Correct or remove it."
            )
        if "vocab_size" not in values:
            raise ValueError(
                "the BERT configuration has no vocab_size; add the number "
                "of lines of the vocabulary."
            )
        return cls(
            **{k: v for k, v in values.items() if k in known}, extra=extra
        )

    @classmethod
    def from_json_file(cls, json_file: str) -> "BertConfig":
        """Reads a configuration; errors name the file.

        Args:
          json_file: `bert_config.json`, or the `config.json` of a BERT of
            Hugging Face.

        Returns:
          The configuration.

        Raises:
          FileNotFoundError: it cannot be read.
          ValueError: see `from_dict` and `huggingface_config.to_original`.
        """
        import tensorflow as tf  # not above: flags are read without it

        try:
            with tf.io.gfile.GFile(json_file, "r") as reader:
                values = json.loads(reader.read())
        except tf.errors.OpError as error:
            raise FileNotFoundError(
                f"{json_file}: cannot read the BERT configuration "
                f"({error.message}); check --bert_config_file."
            ) from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{json_file} is not JSON: {error}.") from None
        if not isinstance(values, dict):
            raise ValueError(f"{json_file} holds no JSON object {{...}}.")
        try:
            if huggingface_config.is_huggingface(values):
                values = huggingface_config.to_original(
                    values, kept=RELEASED_EXTRA_KEYS
                )
            return cls.from_dict(values)
        except ValueError as error:
            raise ValueError(f"{json_file}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Returns the keys of the JSON file, extra ones included."""
        values = dataclasses.asdict(self)
        values.update(values.pop("extra"))
        if not self.left_to_right:  # unknown to the original: only when used
            del values["left_to_right"]
        return values

    def to_json_string(self) -> str:
        """Returns the JSON text, sorted and indented as the original's."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"


def activation_name(hidden_act: str | None) -> str:
    """Reads hidden_act as the original: any case, nothing is linear."""
    return str(hidden_act or "linear").lower()


_RATES = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
)
_INTEGERS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
