"""Reads and writes weights: the original's checkpoints, and Hugging Face's.

tf1                the original's checkpoint format
huggingface_names  the table of Hugging Face's names of weights and ours
huggingface        Hugging Face's format
assign             a checkpoint's arrays into a model's variables
model_folder       the files of a model in a folder, and its weights
"""

from modeling.checkpoints.assign import (
    LoadReport,
    Weights,
    assign,
    compare,
    is_of_encoder,
    require_fit,
    variables_by_name,
)
from modeling.checkpoints.huggingface import HuggingFaceCheckpoint
from modeling.checkpoints.model_folder import (
    init_from_checkpoint,
    open_checkpoint,
)
from modeling.checkpoints.tf1 import (
    LOSS_SCALE,
    LOSS_SCALE_GOOD_STEPS,
    Checkpoint,
    find_prefix,
    latest_name,
    require_readable,
    strip,
    write,
    write_state,
    written,
)

__all__ = [
    "LOSS_SCALE",
    "LOSS_SCALE_GOOD_STEPS",
    "Checkpoint",
    "HuggingFaceCheckpoint",
    "LoadReport",
    "Weights",
    "assign",
    "compare",
    "find_prefix",
    "init_from_checkpoint",
    "is_of_encoder",
    "latest_name",
    "open_checkpoint",
    "require_readable",
    "require_fit",
    "strip",
    "variables_by_name",
    "write",
    "write_state",
    "written",
]
