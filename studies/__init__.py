"""The studies of the paper: one in each file, found by name.

engine/             declares, runs, remembers and reports a study
pretraining_tasks   what each pretraining task adds (Table 5)
model_size          how the size of the model matters (Table 6)
features            a frozen encoder against fine-tuning (Table 7)
masking             what takes the place of a masked word (Table 8)
pretraining_steps   how long pretraining pays (Figure 5)
sentence_objective  next sentence, sentence order, or neither (later work)
objectives          masked words or replaced words (later work)
"""

import importlib
import pkgutil
from typing import Any


def names() -> tuple[str, ...]:
    """Returns the names of all studies: the files of this folder."""
    found = pkgutil.iter_modules(__path__)
    return tuple(sorted(module.name for module in found if not module.ispkg))


def get(name: str) -> Any:
    """Returns the `Study` of the file with this name, one of `names`."""
    if name not in names():
        raise ValueError(f"--study={name}; give one of {', '.join(names())}.")
    return importlib.import_module(f"{__name__}.{name}").STUDY
