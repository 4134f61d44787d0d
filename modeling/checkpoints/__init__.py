"""Weights in and out: the original's checkpoints by variable name."""

from modeling.checkpoints.assign import (
    LoadReport,
    compare,
    init_from_checkpoint,
    variables_by_name,
)
from modeling.checkpoints.tf1 import Checkpoint, find_prefix, strip, write

__all__ = [
    "Checkpoint",
    "LoadReport",
    "compare",
    "find_prefix",
    "init_from_checkpoint",
    "strip",
    "variables_by_name",
    "write",
]
