"""Reads and writes weights: the original's checkpoints, and Hugging Face's.

tf1                the original's checkpoint format
huggingface_names  the table of Hugging Face's names of weights and ours
huggingface        Hugging Face's format
assign             a checkpoint's arrays into a model's variables
model_folder       the files of a model in a folder, and its weights
sentence_folder    folders of sentence-transformers
vector_form        how a text becomes one vector, and the file that says it
"""

from modeling.checkpoints.assign import (
    LoadReport,
    Weights,
    assign,
    is_of_encoder,
    require_fit,
    variables_by_name,
)
from modeling.checkpoints.model_folder import (
    init_from_checkpoint,
    open_checkpoint,
)
from modeling.checkpoints.tf1 import (
    Checkpoint,
    require_readable,
    write,
)

__all__ = [
    "Checkpoint",
    "LoadReport",
    "Weights",
    "assign",
    "init_from_checkpoint",
    "is_of_encoder",
    "open_checkpoint",
    "require_readable",
    "require_fit",
    "variables_by_name",
    "write",
]
