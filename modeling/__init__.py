"""BATCH -> ENCODER -> HEAD -> LOSS.

The road, in the order of the files: `choices` (names that flags offer) ->
`config` (sizes) -> `layers` (dense, layer norm, dropout; the axis letters) ->
`embeddings` -> `attention` -> `transformer` (the stack) -> `bert` (BertModel)
-> `heads` -> `losses` -> `layer_mix`, `bilstm` (what is read of the encoder,
and by whom) -> `pretraining_model`, `task_models`, `span_model` (fine-tuning);
`pooling` (vectors of text). `checkpoints/` reads and writes the weights, the
original's and Hugging Face's. How it is computed, not what: `fusion` (one loop
or kernel between matrix products), `recomputation` (gradient checkpointing).

README.md beside this file is a tour of it: shapes, and where each rule of the
paper stands.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modeling.bert import BertModel, BertOutput
    from modeling.config import BertConfig
    from modeling.pretraining_model import PretrainingModel
    from modeling.span_model import SpanModel
    from modeling.task_models import TaskModel

__all__ = [
    "BertConfig",
    "BertModel",
    "BertOutput",
    "PretrainingModel",
    "SpanModel",
    "TaskModel",
]

_MODULES = {
    "BertConfig": "config",
    "BertModel": "bert",
    "BertOutput": "bert",
    "PretrainingModel": "pretraining_model",
    "SpanModel": "span_model",
    "TaskModel": "task_models",
}


def __getattr__(name: str) -> Any:
    """Imports a class when it is first asked for: TensorFlow takes seconds."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    globals()[name] = getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
