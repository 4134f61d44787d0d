"""Losses for sentence vectors: one in each file, found by name.

similarity  cosines and lengths of vectors
cosent      scored pairs: ranking loss on their cosines
cosine      scored pairs: regression of their cosines
negatives   positive pairs: contrastive loss with in-batch negatives
teacher     any texts: distillation from a teacher's vectors

Each file has a function `loss(vectors, targets, scale)`. `vectors` are float32
[B, K] for each text of an example, `targets` the scores [B, 1], a teacher's
vectors [B, K] or None, `scale` the factor of the cosines. It returns a scalar,
a mean over the batch. Every loss depends on directions only, not on lengths.
"""

import importlib
from collections.abc import Callable

from modeling.choices import VECTOR_LOSSES, require_one_of


def get(name: str) -> Callable:
    """Finds a loss by one of `choices.VECTOR_LOSSES`; imports TensorFlow."""
    require_one_of(VECTOR_LOSSES, "loss", name)
    return importlib.import_module(f"{__name__}.{name}").loss
