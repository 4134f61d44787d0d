"""BATCH -> ENCODER -> HEAD -> LOSS.

choices             names that flags offer
config              sizes of a model, from both kinds of JSON files
checkpoints/        weights in the original's and Hugging Face's formats
kernels/            everything that is there for speed
layers              dense, layer normalization, dropout; axis letters
embeddings          wordpiece + segment + position embeddings
attention           masked multi-head self-attention
recomputation       gradient checkpointing
transformer         one Transformer block, and the stack of them
bert                BertModel: the encoder and its pooler
pooling             vectors of texts and words from the encoder's layers
layer_mix           which layers of a frozen encoder are read
bilstm              the BiLSTM of the paper's section 5.3
heads               the layers on top of the encoder
losses              losses and metrics as sums
objectives/         encoder + heads: what a model is trained for
loading             a folder to its model and tokenizer

It imports only `text`, `storage` and `settings` of `data`, to read the folders
of models.
"""

import importlib
from typing import Any

# Name -> its module.
_MODULES = {
    "BertConfig": "config",
    "BertModel": "bert",
    "BertOutput": "bert",
    "BiLSTM": "bilstm",
    "Dense": "layers",
    "DiscriminatorPredictions": "heads",
    "Embeddings": "embeddings",
    "Encoder": "transformer",
    "GeneratorPredictions": "heads",
    "LayerMix": "layer_mix",
    "LayerNorm": "layers",
    "LanguageModelHead": "heads",
    "LeftToRightModel": "objectives.left_to_right",
    "LinearOutput": "heads",
    "load": "loading",
    "LoadedModel": "loading",
    "MaskedLM": "heads",
    "Pooler": "bert",
    "PretrainingHeads": "heads",
    "PretrainingModel": "objectives.pretraining",
    "ReplacedTokensModel": "objectives.replaced_tokens",
    "SelfAttention": "attention",
    "SpanHead": "heads",
    "SpanModel": "objectives.spans",
    "TaskModel": "objectives.tasks",
    "TaskOutput": "heads",
    "TransformerBlock": "transformer",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Imports a name when it is first asked for: TensorFlow takes seconds."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name != "BertConfig":
        # Keras loads a saved model only if all of its layers are imported.
        for path in _MODULES.values():
            importlib.import_module(f"{__name__}.{path}")
    module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    globals()[name] = getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
