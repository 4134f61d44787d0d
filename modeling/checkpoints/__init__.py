"""Weights in and out: the original's checkpoints by variable name."""

from modeling.checkpoints.assign import (
    LoadReport,
    compare,
    init_from_checkpoint,
    variables_by_name,
)
from modeling.checkpoints.tf1 import (
    Checkpoint,
    find_prefix,
    latest_name,
    strip,
    write,
    write_state,
)

__all__ = [
    "Checkpoint",
    "LoadReport",
    "compare",
    "find_prefix",
    "init_from_checkpoint",
    "latest_name",
    "strip",
    "variables_by_name",
    "write",
    "write_state",
]
