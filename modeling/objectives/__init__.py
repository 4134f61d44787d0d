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


def names() -> tuple[str, ...]:
    """Returns the names of all objectives: their files in this folder."""
    found = pkgutil.iter_modules(__path__)
    names = (module.name for module in found if not module.ispkg)
    return tuple(sorted(name for name in names if name != "base"))


def get(name: str) -> Any:
    """Finds an objective by one of the `names`; imports TensorFlow.

    Returns a subclass of `base.Objective`, the `MODEL` of the file with this
    name. Raises ValueError for an unknown name.
    """
    if name not in names():
        raise ValueError(
            f"objective {name!r}; it must be one of {', '.join(names())}."
        )
    return importlib.import_module(f"{__name__}.{name}").MODEL
