"""BertConfig: the sizes of a model, read from both kinds of JSON files.

The original's `bert_config.json` and Hugging Face's `config.json` use one word
with two meanings. Their `gelu` is the erf form, which is `gelu_exact` here. The
original's `gelu`, the tanh form, is their `gelu_new`.
"""

import dataclasses
import difflib
import json
import re
from collections.abc import Mapping
from typing import Any

from data.storage import files
from data.storage.json_files import read_json

ACTIVATIONS = ("gelu", "gelu_exact", "relu", "tanh", "linear")

# Keys of released configurations (multilingual, Chinese, whole-word-masking
# cased) that do not change the model. They are kept and written again.
RELEASED_EXTRA_KEYS = {
    "directionality",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
}
# The defaults of Hugging Face's BertConfig that the original does not have.
_OF_BERT = {"vocab_size": 30522, "type_vocab_size": 2}
# What its ElectraConfig is by default.
_OF_ELECTRA = _OF_BERT | {
    "electra": True,
    "embedding_size": 128,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
}
# Hugging Face's names -> ours. Of several names, the first is written.
_THEIR_ACTIVATIONS = {
    "gelu": "gelu_exact",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "gelu_python": "gelu_exact",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
# Other values of these keys change the model's outputs. All other keys concern
# training, text generation or the library itself (use_cache, torch_dtype,
# id2label, ...), so they are ignored.
_ONLY_VALUES = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "layer_norm_eps": (1e-12, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}
# Members that Hugging Face does not have, or under another name.
_OURS_ALONE = {"hidden_act", "left_to_right", "electra", "extra"}
# Type of a member -> its values, for errors.
_EXPECTED = {
    int: "a whole number of at least 1",
    int | None: "a whole number of at least 1",
    float: "a number of at least 0 and below 1",
    bool: "true or false",
}


@dataclasses.dataclass(frozen=True)
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
      initializer_range: standard deviation of the truncated initial weights.
      left_to_right: True hides later positions from earlier ones (the
        paper's section 5.1, "LTR & No NSP").
      electra: True is ELECTRA's encoder: its variables are in the scope
        `electra`, it has no pooler, and `embedding_size` can be given.
      embedding_size: width E of the embeddings; None = hidden_size. With
        another width a dense layer maps them to hidden_size.
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
    electra: bool = False
    embedding_size: int | None = None
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            name, value = field.name, getattr(self, field.name)
            if field.type not in _EXPECTED or value is field.default is None:
                continue
            is_right = isinstance(value, field.type | int)
            is_right &= isinstance(value, bool) is (field.type is bool)
            if is_right and field.type is float:
                is_right = 0.0 <= value < 1.0
            elif is_right and field.type is not bool:
                is_right = value >= 1
            if not is_right:
                expected = _EXPECTED[field.type]
                raise ValueError(f"{name} is {value!r}; give {expected}.")
        if self.electra and self.left_to_right:
            raise ValueError(
                "left_to_right and electra are both true; leave one out."
            )
        if self.embedding_width != self.hidden_size and not self.electra:
            raise ValueError(
                f"embedding_size is {self.embedding_size} and hidden_size "
                f"{self.hidden_size}, but they are the same in a BERT; leave "
                'embedding_size out, or add "electra": true.'
            )
        size, heads = self.hidden_size, self.num_attention_heads
        if size % heads:
            raise ValueError(
                f"hidden_size {size} is not a multiple of num_attention_heads "
                f"{heads}; take hidden_size {size // heads * heads or heads} "
                "or another number of heads (usually hidden_size / 64)."
            )
        if activation_name(self.hidden_act) not in ACTIVATIONS:
            raise ValueError(
                f"hidden_act is {self.hidden_act!r}; one of "
                f"{', '.join(ACTIVATIONS)} is expected."
            )

    @property
    def encoder_name(self) -> str:
        """The scope of the encoder's variables in a checkpoint."""
        return "electra" if self.electra else "bert"

    @property
    def embedding_width(self) -> int:
        """The width of the embeddings, E."""
        return self.embedding_size or self.hidden_size

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "BertConfig":
        """Builds a configuration from the keys of `bert_config.json`.

        Missing keys take the defaults of the original release.

        Raises:
          ValueError: an unknown key (the nearest known one is named), no
            vocab_size, or sizes that do not fit each other.
        """
        known = {f.name for f in dataclasses.fields(cls)} - {"extra"}
        extra = {k: v for k, v in values.items() if k in RELEASED_EXTRA_KEYS}
        for key in values.keys() - known - extra.keys():
            # Differs from the original: unknown keys are refused, because a
            # misspelt one would silently leave the default in force.
            near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0)
            raise ValueError(
                f"unknown key {key!r}; the nearest known one is {near[0]!r}."
            )
        if "vocab_size" not in values:
            raise ValueError(
                "it has no vocab_size; add the vocabulary's number of lines."
            )
        sizes = {k: v for k, v in values.items() if k in known}
        return cls(**sizes, extra=extra)

    @classmethod
    def from_json_file(cls, json_file: str) -> "BertConfig":
        """Reads a configuration; errors name the file.

        It is `bert_config.json`, or Hugging Face's `config.json` of a BERT or
        an ELECTRA. Raises FileNotFoundError if it is missing, and ValueError
        for an unknown key or architecture, or sizes that do not fit each other.
        """
        if not files.exists(json_file) or files.is_folder(json_file):
            raise FileNotFoundError(
                f"{json_file}: no such BERT configuration (--bert_config_file)."
            )
        values = read_json(json_file, remedy="check --bert_config_file")
        try:
            if "model_type" in values or "architectures" in values:
                values = from_huggingface(values)
            return cls.from_dict(values)
        except ValueError as error:
            raise ValueError(f"{json_file}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Returns the keys of the JSON file, extra ones included."""
        values = dataclasses.asdict(self)
        values.update(values.pop("extra"))
        # The original does not know these.
        for name in ("left_to_right", "electra"):
            if not values[name]:
                del values[name]
        if self.embedding_width == self.hidden_size:
            del values["embedding_size"]
        return values

    def to_json_string(self) -> str:
        """Returns the JSON text, sorted and indented as the original's."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"


def activation_name(hidden_act: str | None) -> str:
    """Reads hidden_act as the original: in any case; None or "" is linear."""
    return str(hidden_act or "linear").lower()


def from_huggingface(values: Mapping[str, Any]) -> dict[str, Any]:
    """Translates a `config.json` into the keys of `bert_config.json`.

    Raises ValueError for another architecture, or a BERT with an option that
    this implementation does not have.
    """
    is_electra = _model_type(values) == "electra"
    for key, allowed in _ONLY_VALUES.items():
        if values.get(key) not in allowed:
            raise ValueError(
                f"{key} is {values[key]!r}, but this BERT is built for "
                f"{allowed[0]!r} only; take another model."
            )
    theirs = str(values.get("hidden_act", "gelu"))
    if theirs not in _THEIR_ACTIVATIONS:
        raise ValueError(
            f"hidden_act is {theirs!r}; of Hugging Face's activations only "
            f"{', '.join(_THEIR_ACTIVATIONS)} are known. Take another model."
        )
    ours = {field.name for field in dataclasses.fields(BertConfig)}
    same = ours - _OURS_ALONE | RELEASED_EXTRA_KEYS
    if not is_electra:
        same.remove("embedding_size")
    return {
        **(_OF_ELECTRA if is_electra else _OF_BERT),
        **{key: values[key] for key in same & values.keys()},
        "hidden_act": _THEIR_ACTIVATIONS[theirs],
    }


def to_huggingface(values: Mapping[str, Any]) -> dict[str, Any]:
    """Translates keys of `bert_config.json` into an encoder's `config.json`.

    `architectures` and labels are left out. Raises ValueError for a
    left-to-right model.
    """
    if values.get("left_to_right"):
        raise ValueError(
            "left_to_right is true, which has no counterpart among Hugging "
            "Face's BERT classes; such a model cannot be converted."
        )
    ours = activation_name(values["hidden_act"])
    theirs = next(a for a, b in _THEIR_ACTIVATIONS.items() if b == ours)
    values = {"embedding_size": values["hidden_size"], **values}
    is_electra = values.pop("electra", False)
    if not is_electra:
        del values["embedding_size"]
    return {
        **values,
        "hidden_act": theirs,
        "model_type": "electra" if is_electra else "bert",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "position_embedding_type": "absolute",
    }


def label_names(values: Mapping[str, Any], path: str) -> list[str]:
    """Returns the names in `id2label`, in the order of the ids; [] = none.

    There is a name for each row of the output layer. Raises ValueError if
    `id2label` does not map the ids from 0 to names.
    """
    names = values.get("id2label") or {}
    try:
        return [str(names[str(i)]) for i in range(len(names))]
    except (TypeError, KeyError):
        raise ValueError(
            f"{path}: id2label is {names!r}; expected an object of the ids "
            'from 0 and names, as {"0": "no", "1": "yes"}. Correct the file.'
        ) from None


def _model_type(values: Mapping[str, Any]) -> str:
    """Returns `bert` or `electra`; raises ValueError for other models."""
    if "model_type" in values:
        found = name = values["model_type"]
    else:
        found = next(iter(values.get("architectures") or ()), "Bert")
        name = re.match("Bert|Electra|", str(found))[0].lower()
    if name not in ("bert", "electra"):
        raise ValueError(
            f"this is Hugging Face's {found!r}, another architecture than BERT "
            'and ELECTRA (model_type "bert" or "electra"); take such a model.'
        )
    return name
