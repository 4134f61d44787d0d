"""What trains the vectors of texts: one loss in each file, found by name.

similarity  cosines and lengths of vectors
cosent      scored pairs: their cosines in the order of their scores
cosine      scored pairs: their cosines near their scores
negatives   positive pairs: each text nearer to its own than to others
teacher     any texts: their vectors near another model's

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
