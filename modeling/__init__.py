"""BATCH -> ENCODER -> HEAD -> LOSS.

choices             names that flags offer
config              sizes of a model, from both kinds of JSON files
checkpoints/        weights in the original's and Hugging Face's formats
kernels/            everything that is there for speed
layers              dense, layer normalization, dropout; axis letters
embeddings          wordpiece + segment + position embeddings
attention           masked multi-head self-attention
transformer         one Transformer block, and the stack of them
bert                BertModel: the encoder and its pooler
pooling             vectors of texts and words from the encoder's layers
layer_mix           which layers of a frozen encoder are read
bilstm              the BiLSTM of the paper's section 5.3
heads               the layers on top of the encoder
losses              losses and metrics as sums
objectives/         encoder + heads: what a model is trained for
loading             a folder to its model and tokenizer
text_encoder        strings to the encoder's inputs

It imports only `text`, `storage` and `settings` of `data`, to read the folders
of models.
"""

import importlib
import importlib.abc
import importlib.util
import sys
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
    "SentenceEncoder": "objectives.sentence_vectors",
    "SpanHead": "heads",
    "SpanModel": "objectives.spans",
    "TaskModel": "objectives.tasks",
    "TaskOutput": "heads",
    "TextEncoder": "text_encoder",
    "TransformerBlock": "transformer",
    "VectorForm": "checkpoints.vector_form",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Imports a name when it is first asked for: TensorFlow takes seconds."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    globals()[name] = getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _StandIn:
    """A layer in Keras's table of classes, until its file is imported."""

    def __init__(self, name):
        self._name = name

    def from_config(self, config):
        """Imports the layer and creates it."""
        return __getattr__(self._name).from_config(config)


def _register(keras):
    """Lets Keras load saved models, which name their layers."""
    table = keras.saving.get_custom_objects()
    for name in __all__:
        table.setdefault(f"bert>{name}", _StandIn(name))


class _AfterKeras(importlib.abc.MetaPathFinder):
    """Registers the layers as soon as Keras is imported."""

    def find_spec(self, name, path=None, target=None):
        """Finds Keras, once."""
        if name != "keras":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec:
            load = spec.loader.exec_module

            def load_and_register(keras):
                load(keras)
                _register(keras)

            spec.loader.exec_module = load_and_register
        return spec


# Not by `import keras` here, which takes seconds.
if sys.modules.get("keras"):
    _register(sys.modules["keras"])
else:
    sys.meta_path.insert(0, _AfterKeras())
