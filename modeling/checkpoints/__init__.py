"""Reads and writes weights: the original's checkpoints, and Hugging Face's.

tf1                the original's checkpoint format
huggingface_names  the table of Hugging Face's names of weights and ours
huggingface        Hugging Face's format
assign             a checkpoint's arrays into a model's variables
model_folder       which files of a model are in a folder, and what they say
"""

from modeling.checkpoints.assign import (
    LoadReport,
    assign,
    compare,
    init_from_checkpoint,
    is_of_encoder,
    open_checkpoint,
    require_fit,
    variables_by_name,
)
from modeling.checkpoints.huggingface import HuggingFaceCheckpoint
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
