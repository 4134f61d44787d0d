"""A model whose encoder, layers, words and positions a conversion changes."""

import dataclasses
from typing import Any

import numpy as np

from data.text.tokenizer_files import TokenizerSettings
from modeling import checkpoints
from modeling.checkpoints.model_folder import ModelFolder
from modeling.config import BertConfig
from training.config.conversion_options import ConversionOptions

_POSITIONS = "/embeddings/position_embeddings"
# The variables with a row for each token.
_BY_TOKEN = (
    "bert/embeddings/word_embeddings",
    "cls/predictions/output_bias",
    "electra/embeddings/word_embeddings",
    "generator_predictions/output_bias",
)


class ChangedModel:
    """A model of a checkpoint; it reads as a checkpoint does.

    A row of its tables is the mean of some rows of the checkpoint.

    Attributes:
      options: what the conversion does.
      found: the folder that is converted.
      prefix: where the checkpoint is, for messages.
      config: `BertConfig`, with the sizes of the changed model.
      tokens: its vocabulary, in the order of the ids.
      texts: how its texts become wordpieces.
      names: our name -> the name in the checkpoint.
      token_rows: id -> rows of the checkpoint; [] = all stay.
      position_rows: position -> rows of the checkpoint; [] = all stay.
      is_generator: whether it is the generator of an ELECTRA.
    """

    def __init__(
        self,
        options: ConversionOptions,
        found: ModelFolder,
        config: BertConfig,
        tokens: list[str],
        texts: TokenizerSettings,
    ):
        self.options, self.found = options, found
        self.config, self.tokens, self.texts = config, tokens, texts
        self._checkpoint = checkpoints.open_checkpoint(found.weights)
        self.prefix = self._checkpoint.prefix
        self.names = {name: name for name in self._checkpoint.shapes}
        self.token_rows: list[list[int]] = []
        self.position_rows: list[list[int]] = []
        self.is_generator = False

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
        shapes = {}
        for name, source in self.names.items():
            shape, rows = self._checkpoint.shapes[source], self._rows(name)
            shapes[name] = (len(rows), *shape[1:]) if rows else shape
        return shapes

    def read(self, name: str) -> np.ndarray:
        """Returns a variable's value in the changed model."""
        value = self._checkpoint.read(self.names[name])
        rows = self._rows(name)
        if not rows:
            return value
        changed = value[[sources[0] for sources in rows]]
        for row, sources in enumerate(rows):
            if len(sources) > 1:
                changed[row] = value[sources].mean(axis=0)
        return changed

    def resize(self, **sizes: Any) -> None:
        """Changes sizes of the configuration."""
        self.config = dataclasses.replace(self.config, **sizes)

    def _rows(self, name: str) -> list[list[int]]:
        if name.endswith(_POSITIONS):
            return self.position_rows
        return self.token_rows if name in _BY_TOKEN else []
