"""Takes layers and words away from a model.

    cut = cutting.Cut(model)
    cut.keep_layers(cutting.evenly(3, of=6))
    cut.keep_words(8000, word_counts)

`cut` then has the smaller configuration and vocabulary, and reads as a
checkpoint does.
"""

import collections
import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from absl import logging

from data.storage import files
from data.text.tokenization import WordpieceTokenizer
from data.text.tokenizer_files import TokenizerSettings
from data.text.vocabulary import SPECIAL_TOKENS, require_tokens
from data.text.vocabulary_building import count_words
from modeling.checkpoints.tf1 import is_weight
from training.config.conversion_options import ConversionOptions
from training.convert.growth import BY_TOKEN, Grown

_LAYER = re.compile(r"(?<=/encoder/layer_)\d+(?=/)")
_BYTES = 4  # of a float32 number


class Cut:
    """A model with fewer layers and words.

    A text that has only kept wordpieces has the same wordpieces as before.

    Attributes:
      config: `BertConfig`, with the sizes of the cut model.
      tokens: the vocabulary of the cut model.
      shapes: our name -> the shape in the cut model.
      is_generator: whether it is the generator of an ELECTRA.
    """

    def __init__(self, model: Grown):
        self._model = model
        self._names = {name: name for name in model.shapes}
        self._rows: Sequence[int] | None = None
        self.config = model.config
        self.tokens = model.tokens
        self.shapes = dict(model.shapes)
        self.is_generator = model.is_generator

    def read(self, name: str) -> np.ndarray:
        """Returns a variable's value, with the rows of the kept words."""
        value = self._model.read(self._names[name])
        if name in BY_TOKEN and self._rows is not None:
            return value[self._rows]
        return value

    def keep_layers(self, layers: Sequence[int]) -> None:
        """Keeps these layers, in this order.

        Raises ValueError if one of them is not there or is named twice.
        """
        before = self.config.num_hidden_layers
        wrong = [layer for layer in layers if not 0 <= layer < before]
        if wrong or len({*layers}) < len(layers):
            raise ValueError(
                f"--keep_layers={','.join(map(str, layers))}; the model has "
                f"the layers 0 to {before - 1}: name some of them, each once, "
                f"or one number of layers, 1 to {before}."
            )
        number_of = {str(old): str(new) for new, old in enumerate(layers)}
        names, shapes = {}, {}
        for name, shape in self.shapes.items():
            found = _LAYER.search(name)
            if found and found.group() not in number_of:
                continue
            ours = _LAYER.sub(lambda old: number_of[old.group()], name)
            names[ours], shapes[ours] = self._names[name], shape
        self._names, self.shapes = names, shapes
        self.config = dataclasses.replace(
            self.config, num_hidden_layers=len(layers)
        )
        logging.info(
            "Layers 0 to %d were layers %s of %d. Train before you rely on "
            "the model.",
            *(len(layers) - 1, ", ".join(map(str, layers)), before),
        )

    def keep_words(
        self,
        number: int,
        word_counts: Mapping[str, int],
        whole: Collection[str] = (),
    ) -> None:
        """Keeps the wordpieces that a text uses, the most frequent first.

        Args:
          number: size of the new vocabulary; it is smaller if the text uses
            fewer wordpieces.
          word_counts: word of the text -> how often it occurs.
          whole: tokens that are never split.

        Raises:
          ValueError: the vocabulary lacks a special token, or the special
            tokens and single characters, which all stay, are more than that.
        """
        ids = {t.strip(): i for i, t in enumerate(self.tokens) if t.strip()}
        special = dict.fromkeys((*SPECIAL_TOKENS, *whole))
        require_tokens(ids, special, "--keep_words: the vocabulary")
        single = {t for t in ids if len(t.removeprefix("##")) == 1}
        required = len(single.union(special))
        if number < required:
            raise ValueError(
                f"--keep_words={number}; {len(special)} special tokens and "
                f"{len(single)} single characters stay, so give at least "
                f"{required}."
            )
        counts, tokenizer = collections.Counter(), WordpieceTokenizer(ids)
        for word, count in word_counts.items():
            for piece in tokenizer.tokenize(word):
                counts[piece] += count
        frequent = [t for t, _ in counts.most_common() if t not in single]
        frequent = [t for t in frequent if t not in special]
        kept = {*special, *single, *frequent[: number - required]}
        # Ids keep their order, so that [PAD] stays 0.
        self._rows = sorted(ids[token] for token in kept)
        share = sum(counts[t] for t in kept) / max(1, counts.total())
        logging.info(
            "%d of %d wordpieces are kept: %d special tokens, %d single "
            "characters, %d more that the text uses. %.2f %% of the text's "
            "wordpieces are kept; the rest become shorter ones.",
            *(len(kept), len(ids), len(special), len(single)),
            *(len(kept) - required, 100 * share),
        )
        self.tokens = [self.tokens[row] for row in self._rows]
        size = len(self.tokens)
        self.config = dataclasses.replace(self.config, vocab_size=size)
        for name in BY_TOKEN & self.shapes.keys():
            self.shapes[name] = (size, *self.shapes[name][1:])

    def log_size(self) -> None:
        """Logs how large the weights were, and are now."""
        before, now = (
            sum(
                int(np.prod(shape)) * _BYTES / 1e6
                for name, shape in shapes.items()
                if is_weight(name)
            )
            for shapes in (self._model.shapes, self.shapes)
        )
        logging.info(
            "Weights: %.1f MB before, %.1f MB now (%.2f of it), in float32.",
            *(before, now, now / before),
        )


def cut(
    model: Grown, options: ConversionOptions, texts: TokenizerSettings
) -> Cut:
    """Takes away the layers and words that the options do not keep."""
    smaller, layers = Cut(model), options.keep_layers
    number = model.config.num_hidden_layers
    if len(layers) == 1 and 0 < layers[0] <= number:
        layers = evenly(layers[0], of=number)
    if layers:
        smaller.keep_layers(layers)
    if options.keep_words:
        word_counts = count_words(
            files.expand_patterns(options.input_file),
            do_lower_case=texts.do_lower_case,
        )
        smaller.keep_words(options.keep_words, word_counts, texts.never_split)
    smaller.log_size()
    return smaller


def evenly(number: int, of: int) -> list[int]:
    """Returns `number` of `of` layers, as far apart as can be, from layer 0.

    Source: the students of DistilBERT take every other layer of their teacher.
    """
    return [i * of // number for i in range(number)]
