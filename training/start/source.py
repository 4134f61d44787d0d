"""The model of --init_checkpoint: each file beside its weights is read once."""

import functools
from collections.abc import Mapping
from typing import Any

from data.text.tokenizer_files import read_settings
from modeling.checkpoints import model_folder
from modeling.config import BertConfig


class Source:
    """The model that a run begins with.

    Args:
      path: see `model_folder.find`; None = the run begins with random weights.
    """

    def __init__(self, path: str | None):
        self.path = path

    @functools.cached_property
    def folder(self) -> model_folder.ModelFolder | None:
        """Its files; None = there are none, or they cannot be read."""
        try:
            return model_folder.find(self.path) if self.path else None
        except (ValueError, OSError):
            # The weights may be gone when a run that began with them resumes.
            return None

    def require(self) -> None:
        """Raises ValueError or OSError if the files cannot be read."""
        if self.path and not self.folder:
            model_folder.find(self.path)

    @functools.cached_property
    def tokenizer_flags(self) -> Mapping[str, Any]:
        """The tokenizer's flags that the folder has, {} if none."""
        if not self.folder:
            return {}
        # Differs from the original: its default lower-cases, even for a model
        # that was trained on cased text.
        settings = read_settings(self.folder.path, self.folder.facts)
        return {n: x for n, x in vars(settings).items() if x not in (None, ())}

    @functools.cached_property
    def config(self) -> BertConfig | None:
        """The configuration beside the weights; None = there is none."""
        path = self.folder and self.folder.config_file
        return BertConfig.from_json_file(path) if path else None

    def read_config(self, path: str) -> BertConfig:
        """Reads a configuration, unless it is the one beside the weights."""
        if self.folder and self.folder.config_file == path:
            return self.config
        return BertConfig.from_json_file(path)
