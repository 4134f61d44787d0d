"""Reads and writes weights: the original's checkpoints, and Hugging Face's.

tf1                the original's checkpoint format
huggingface_names  the table of Hugging Face's names of weights and ours
huggingface        Hugging Face's format
assign             a checkpoint's arrays into a model's variables
model_folder       the files of a model in a folder, and its weights
vector_form        how a text becomes one vector, and the files that say it
"""

from modeling.checkpoints.assign import (  # noqa: F401
    LoadReport,
    assign,
    is_of_encoder,
    require_fit,
    variables_by_name,
)
from modeling.checkpoints.model_folder import (  # noqa: F401
    init_from_checkpoint,
    open_checkpoint,
)
from modeling.checkpoints.tf1 import Checkpoint, require_readable, write  # noqa: F401
