"""A model whose encoder, layers, words and positions a conversion changes."""

import dataclasses
from typing import Any

import numpy as np

from data.text.tokenizer_files import TokenizerSettings
from modeling.checkpoints.model_folder import ModelFolder
from modeling.config import BertConfig
from training.config.conversion_options import ConversionOptions

# The ends of the names of the variables with a row for each position.
POSITIONS = ("/embeddings/position_embeddings",)
# Of those with a row for each token.
TOKENS = (
    "bert/embeddings/word_embeddings",
    "cls/predictions/output_bias",
    "electra/embeddings/word_embeddings",
    "generator_predictions/output_bias",
)


@dataclasses.dataclass
class ChangedModel:
    """A model of a checkpoint, with its weights.

    Attributes:
      options: what the conversion does.
      found: the folder that is converted.
      prefix: where the checkpoint is, for messages.
      config: `BertConfig`, with the sizes of the changed model.
      tokens: its vocabulary, in the order of the ids.
      texts: how its texts become wordpieces.
      values: our name -> value, without optimizer slots and step.
      is_generator: whether it is the generator of an ELECTRA.
    """

    options: ConversionOptions
    found: ModelFolder
    prefix: str
    config: BertConfig
    tokens: list[str]
    texts: TokenizerSettings
    values: dict[str, np.ndarray]
    is_generator: bool = False

    @property
    def kind(self) -> str | None:
        """What the model is for; None = no flag and no file says it."""
        return self.options.kind or self.found.kind

    @property
    def ids(self) -> dict[str, int]:
        """Token -> id, without the blank lines of the vocabulary."""
        return {t.strip(): i for i, t in enumerate(self.tokens) if t.strip()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Our name -> shape in the changed model."""
        # A file of TensorFlow 2 holds text, too, which has no shape of its own.
        return {name: np.shape(value) for name, value in self.values.items()}

    def take(self, tables: tuple[str, ...], rows: list[list[int]]) -> None:
        """Makes the rows of some tables of the rows that they have.

        Args:
          tables: ends of the names of the variables.
          rows: for each new row the old ones, whose mean it is.
        """
        for name, value in self.values.items():
            if name.endswith(tables):
                changed = value[[sources[0] for sources in rows]]
                for row, sources in enumerate(rows):
                    if len(sources) > 1:
                        changed[row] = value[sources].mean(axis=0)
                self.values[name] = changed

    def resize(self, **sizes: Any) -> None:
        """Changes sizes of the configuration."""
        self.config = dataclasses.replace(self.config, **sizes)
