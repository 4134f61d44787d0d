"""BATCH -> ENCODER -> HEAD -> LOSS.

The road, in the order of the files: `config` (sizes) -> `layers` (dense,
layer norm, dropout; the axis letters) -> `embeddings` -> `attention` ->
`transformer` (the stack) -> `bert` (BertModel) -> `heads` -> `losses` ->
`pretraining_model`, `task_models` (fine-tuning). `checkpoints/` reads and
writes the weights.
"""

from modeling.bert import BertModel, BertOutput
from modeling.config import BertConfig
from modeling.pretraining_model import PretrainingModel
from modeling.task_models import TaskModel

__all__ = [
    "BertConfig",
    "BertModel",
    "BertOutput",
    "PretrainingModel",
    "TaskModel",
]
