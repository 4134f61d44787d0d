"""How a text becomes one vector, and the file that says it."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Self

from data.settings import refuse
from data.storage import files
from data.storage.json_files import read_json, write_json
from modeling.checkpoints import sentence_folder
from modeling.choices import VECTOR_POOLINGS

# In the folder of a model. A folder with this file holds sentence vectors.
VECTOR_FORM = "sentence_vectors.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorForm:
    """What turns the last block's output into a text's vector.

    Attributes:
      pooling: one of `choices.VECTOR_POOLINGS`.
      normalize: whether vectors have the length 1.
      vector_sizes: sizes below the hidden size at which the first numbers of a
        vector are a vector, too, the largest first.
      prompts: name -> text that is put before a text, such as "query: ".
      default_prompt: name of the prompt for texts without one; "" = none.
      max_seq_length: most wordpieces of a text; None = it is not known.
    """

    pooling: str = "mean"
    normalize: bool = True
    vector_sizes: tuple[int, ...] = ()
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default_prompt: str = ""
    max_seq_length: int | None = None

    def __post_init__(self):
        sizes = tuple(sorted(set(self.vector_sizes), reverse=True))
        object.__setattr__(self, "vector_sizes", sizes)
        refuse(
            (
                self.pooling not in VECTOR_POOLINGS,
                f"pooling {self.pooling!r}; it must be one of "
                f"{', '.join(VECTOR_POOLINGS)}.",
            )
        )
        self.prompt()

    def sizes(self, hidden_size: int) -> tuple[int, ...]:
        """Returns the sizes of vectors, the largest first.

        Raises ValueError for a size that the model does not have.
        """
        wrong = [n for n in self.vector_sizes if not 0 < n <= hidden_size]
        if wrong:
            raise ValueError(
                f"--vector_sizes has {wrong[0]}, but the model's vectors have "
                f"{hidden_size} numbers; give sizes of 1 to {hidden_size}."
            )
        sizes = {hidden_size, *self.vector_sizes}
        return tuple(sorted(sizes, reverse=True))

    def prompt(self, name: str | None = None) -> str:
        """Returns a prompt's text by its name; None = the default one.

        Raises ValueError for an unknown name.
        """
        name = self.default_prompt if name is None else name
        if name and name not in self.prompts:
            raise ValueError(
                f"there is no prompt {name!r}; the model has "
                f"{', '.join(self.prompts) or 'none'}."
            )
        return self.prompts[name] if name else ""

    def usual(self, names: Sequence[str]) -> str | None:
        """Returns the first of usual names that a prompt has; None = none."""
        return next((name for name in names if name in self.prompts), None)

    def write(self, folder: str) -> None:
        """Writes the form to the folder of a model."""
        write_json(os.path.join(folder, VECTOR_FORM), dataclasses.asdict(self))

    @classmethod
    def find(cls, folder: str) -> Self | None:
        """Reads the form in the folder of a model; None = there is none.

        The folder may be one of sentence-transformers. Raises ValueError if a
        file is damaged, of another version, or has what is not known here.
        """
        path = os.path.join(folder, VECTOR_FORM)
        if files.exists(path):
            facts = read_json(path)
        else:
            path = os.path.join(folder, sentence_folder.MODULES)
            facts = sentence_folder.read_form(folder)
        try:
            return None if facts is None else cls(**facts)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is damaged or has another version ({error}); write it "
                "again with the program that made it."
            ) from None
