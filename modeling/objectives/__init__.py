"""What a model is trained for: one objective in each file, found by name.

base           what they share: encoder, heads, form of the losses
pretraining    masked LM and next sentence
left_to_right  every next token, under left-to-right attention
replaced_tokens  ELECTRA: which tokens a generator has replaced
tasks          classification, regression, multilabel, choice, tagging
spans          the start and the end of an answer
vector_losses/  what trains the vectors of texts
sentence_vectors  one vector for each text
"""

import importlib
import pkgutil
from typing import Any

from modeling.choices import require_one_of


def names() -> tuple[str, ...]:
    """Returns the names of all objectives: their files in this folder."""
    found = {module.name for module in pkgutil.iter_modules(__path__)}
    return tuple(sorted(found - {"base", "vector_losses"}))


def get(name: str) -> Any:
    """Finds an objective by one of the `names`; imports TensorFlow.

    Returns a subclass of `base.Objective`, the `MODEL` of the file with this
    name. Raises ValueError for an unknown name.
    """
    require_one_of(names(), "objective", name)
    return importlib.import_module(f"{__name__}.{name}").MODEL
