"""BATCH -> ENCODER -> HEAD -> LOSS.

The road, in the order of the files: `config` (sizes) -> `layers` (dense,
layer norm, dropout; the axis letters) -> `embeddings` -> `attention` ->
`transformer` (the stack) -> `bert` (BertModel) -> `heads` -> `losses` ->
`layer_mix`, `bilstm` (what is read of the encoder, and by whom) ->
`pretraining_model`, `task_models`, `span_model` (fine-tuning); `pooling`
(vectors of text). `checkpoints/` reads and writes the weights, the original's
and Hugging Face's.

README.md beside this file is a tour of it: shapes, and where each rule of the
paper stands.
"""

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
