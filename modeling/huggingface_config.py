"""Hugging Face's `config.json` and our `bert_config.json`, key by key.

The same word has two meanings: their `gelu` is the erf form, ours `gelu_exact`;
our `gelu`, the original's, is the tanh form, their `gelu_new`.
"""

from collections.abc import Mapping
from typing import Any

# What both sides call the same, with the value of a missing key in
# transformers' BertConfig; ours has 16 segments by default, theirs 2.
_SAME_KEYS = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
}
# Theirs -> ours. The first name of each of ours is the one that is written.
_ACTIVATIONS = {
    "gelu": "gelu_exact",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "gelu_python": "gelu_exact",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
# These change the numbers. All other keys are about training, text generation
# or the library itself (use_cache, torch_dtype, id2label, ...) and are passed
# over, whatever their value.
_ONLY_VALUES = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "layer_norm_eps": (1e-12, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}


def is_huggingface(values: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a `config.json` of Hugging Face."""
    return "model_type" in values or "architectures" in values


def to_original(
    values: Mapping[str, Any], kept: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Translates a `config.json` into the keys of `bert_config.json`.

    Args:
      values: the JSON object.
      kept: further keys to take over, if they are there.

    Returns:
      Keys and values for `BertConfig.from_dict`.

    Raises:
      ValueError: it is of another architecture, or of a BERT that computes
        something that ours does not.
    """
    _require_bert(values)
    for key, allowed in _ONLY_VALUES.items():
        if values.get(key) not in allowed:
            raise ValueError(
                f"{key} is {values[key]!r}, but this BERT is built for "
                f"{allowed[0]!r} only: the weights would give other numbers. "
                "Take another model."
            )
    theirs = str(values.get("hidden_act", "gelu"))
    if theirs not in _ACTIVATIONS:
        raise ValueError(
            f"hidden_act is {theirs!r}; of Hugging Face's activations only "
            f"{', '.join(_ACTIVATIONS)} are known here. Take another model."
        )
    return {
        **{key: values.get(key, _SAME_KEYS[key]) for key in _SAME_KEYS},
        "hidden_act": _ACTIVATIONS[theirs],
        **{key: values[key] for key in kept & values.keys()},
    }


def from_original(values: Mapping[str, Any]) -> dict[str, Any]:
    """Translates the keys of `bert_config.json` into those of `config.json`.

    Args:
      values: `BertConfig.to_dict`.

    Returns:
      Keys and values of an encoder; `architectures` and labels are for the
      caller to add.

    Raises:
      ValueError: it reads from left to right.
    """
    if values.get("left_to_right"):
        raise ValueError(
            "left_to_right is true: an encoder that looks back only has no "
            "counterpart among Hugging Face's BERT classes; such a model "
            "stays here."
        )
    ours = str(values["hidden_act"] or "linear").lower()
    theirs = next(a for a, b in _ACTIVATIONS.items() if b == ours)
    return {
        **values,
        "hidden_act": theirs,
        "model_type": "bert",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "position_embedding_type": "absolute",
    }


def label_names(values: Mapping[str, Any], path: str) -> list[str]:
    """Returns the names in `id2label`, in the order of the ids.

    Args:
      values: the JSON object of a `config.json`.
      path: of the file, for the error.

    Returns:
      A name for each row of the output layer; [] if there are none.

    Raises:
      ValueError: `id2label` does not map ids to names.
    """
    names = values.get("id2label") or {}
    try:
        return [str(names[i]) for i in sorted(names, key=int)]
    except (TypeError, ValueError):
        raise ValueError(
            f"{path}: id2label is {names!r}; expected an object of ids and "
            'names, such as {"0": "no", "1": "yes"}. Correct the file.'
        ) from None


def _require_bert(values: Mapping[str, Any]) -> None:
    """Refuses what Hugging Face does not call BERT."""
    architecture = next(iter(values.get("architectures") or ()), "Bert")
    if "model_type" in values:
        found, is_bert = values["model_type"], values["model_type"] == "bert"
    else:
        found, is_bert = architecture, architecture.startswith("Bert")
    if not is_bert:
        raise ValueError(
            f"this is Hugging Face's {found!r}, another architecture than "
            'BERT (model_type "bert"); take a BERT model.'
        )
