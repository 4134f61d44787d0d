"""A tiny random model as Hugging Face's libraries save it, and its outputs.

Names, shapes and arithmetic are written down from their side (`x @ weight.T`),
without any of our tables.
"""

import json
import math
import re

import numpy as np
from safetensors.numpy import save_file

V, H, LAYERS, HEADS, FF, POSITIONS = 1200, 12, 2, 3, 20, 64

CONFIG = {
    "_name_or_path": "somebody/tiny",
    "architectures": ["BertModel"],
    "attention_probs_dropout_prob": 0.1,
    "classifier_dropout": None,
    "gradient_checkpointing": False,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": H,
    "initializer_range": 0.02,
    "intermediate_size": FF,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": POSITIONS,
    "model_type": "bert",
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "transformers_version": "4.57.1",
    "type_vocab_size": 2,
    "use_cache": True,
    "vocab_size": V,
}


def with_bias(name, *shape):
    """A weight and its bias: shapes by name."""
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


BLOCK = {
    **with_bias("attention.self.query", H, H),
    **with_bias("attention.self.key", H, H),
    **with_bias("attention.self.value", H, H),
    **with_bias("attention.output.dense", H, H),
    **with_bias("attention.output.LayerNorm", H),
    **with_bias("intermediate.dense", FF, H),
    **with_bias("output.dense", H, FF),
    **with_bias("output.LayerNorm", H),
}
ENCODER = {
    "embeddings.word_embeddings.weight": (V, H),
    "embeddings.position_embeddings.weight": (POSITIONS, H),
    "embeddings.token_type_embeddings.weight": (2, H),
    **with_bias("embeddings.LayerNorm", H),
    **{
        f"encoder.layer.{layer}.{name}": shape
        for layer in range(LAYERS)
        for name, shape in BLOCK.items()
    },
}
POOLER = with_bias("pooler.dense", H, H)
HEADS_OF = {
    "BertForPreTraining": {
        **with_bias("cls.predictions.transform.dense", H, H),
        **with_bias("cls.predictions.transform.LayerNorm", H),
        "cls.predictions.bias": (V,),
        **with_bias("cls.seq_relationship", 2, H),
    },
    "BertForSequenceClassification": with_bias("classifier", 3, H),
    "BertForTokenClassification": with_bias("classifier", 3, H),
    "BertForMultipleChoice": with_bias("classifier", 1, H),
    "BertForQuestionAnswering": with_bias("qa_outputs", 2, H),
}
WITHOUT_POOLER = ("BertForTokenClassification", "BertForQuestionAnswering")


def tensors_of(architecture="BertModel"):
    """Random tensors, large enough for every one to count."""
    encoder = dict(ENCODER)
    if architecture not in WITHOUT_POOLER:
        encoder |= POOLER
    prefix = "" if architecture == "BertModel" else "bert."
    shapes = {prefix + name: shape for name, shape in encoder.items()}
    shapes |= HEADS_OF.get(architecture, {})
    rng = np.random.default_rng(0)
    return {
        name: (
            rng.normal(0, 0.3, shape) + name.endswith("LayerNorm.weight")
        ).astype(np.float32)
        for name, shape in shapes.items()
    }


def write_folder(folder, tensors, **config):
    """Writes `config.json` and `model.safetensors`; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return str(folder)


def gelu(x):
    """The erf form."""
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def layer_norm(tensors, name, x):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(
        x.var(-1, keepdims=True) + 1e-12
    )
    return x * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def linear(tensors, name, x):
    return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]


def embed(tensors, ids, segments):
    """What enters the first block."""
    x = (
        tensors["embeddings.word_embeddings.weight"][ids]
        + tensors["embeddings.token_type_embeddings.weight"][segments]
        + tensors["embeddings.position_embeddings.weight"][: ids.shape[1]]
    )
    x = layer_norm(tensors, "embeddings.LayerNorm", x)
    if "embeddings_project.weight" not in tensors:
        return x
    return linear(tensors, "embeddings_project", x)


def encode(tensors, ids, mask, segments):
    """Sequence [B, S, H] and pooled output [B, H] in float64."""
    tensors = {
        re.sub(r"^(bert|electra)\.", "", name): value.astype(np.float64)
        for name, value in tensors.items()
    }
    batch, length = ids.shape
    x = embed(tensors, ids, segments)

    def heads(y):
        return y.reshape(batch, length, HEADS, -1).transpose(0, 2, 1, 3)

    for layer in range(LAYERS):
        block = f"encoder.layer.{layer}."
        query, key, value = (
            heads(linear(tensors, f"{block}attention.self.{name}", x))
            for name in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(H // HEADS)
        scores = np.where(mask[:, None, None] > 0, scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = scores / scores.sum(-1, keepdims=True) @ value
        mixed = mixed.transpose(0, 2, 1, 3).reshape(batch, length, H)
        name = f"{block}attention.output"
        x = layer_norm(
            tensors,
            f"{name}.LayerNorm",
            x + linear(tensors, f"{name}.dense", mixed),
        )
        wide = gelu(linear(tensors, f"{block}intermediate.dense", x))
        x = layer_norm(
            tensors,
            f"{block}output.LayerNorm",
            x + linear(tensors, f"{block}output.dense", wide),
        )
    if "pooler.dense.weight" not in tensors:
        return x, None
    return x, np.tanh(linear(tensors, "pooler.dense", x[:, 0]))
