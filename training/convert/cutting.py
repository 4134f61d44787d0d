"""Takes layers and words away from a model."""

import collections
import re
from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging

from data.storage import files
from data.text.tokenization import WordpieceTokenizer
from data.text.vocabulary import SPECIAL_TOKENS, require_tokens
from data.text.vocabulary_building import count_words
from training.convert import growth
from training.convert.changed_model import TOKENS, ChangedModel

_LAYER = re.compile(r"(?<=/encoder/layer_)\d+(?=/)")
_BYTES = 4  # of a float32 number


def cut(model: ChangedModel) -> None:
    """Takes away the layers and words that the options do not keep."""
    before, layers = _megabytes(model), model.options.keep_layers
    number = model.config.num_hidden_layers
    if len(layers) == 1 and 0 < layers[0] <= number:
        layers = evenly(layers[0], of=number)
    if layers:
        _keep_layers(model, layers)
    if model.options.keep_words:
        _keep_words(model)
    now = _megabytes(model)
    logging.info(
        "Weights: %.1f MB before, %.1f MB now (%.2f of it), in float32.",
        *(before, now, now / before),
    )


def evenly(number: int, of: int) -> list[int]:
    """Returns `number` of `of` layers, as far apart as can be, from layer 0.

    Source: the students of DistilBERT take every other layer of their teacher.
    """
    return [i * of // number for i in range(number)]


def _keep_layers(model: ChangedModel, layers: Sequence[int]) -> None:
    """Keeps these layers, in this order; refuses others and repeated ones."""
    before = model.config.num_hidden_layers
    wrong = [layer for layer in layers if not 0 <= layer < before]
    if wrong or len({*layers}) < len(layers):
        raise ValueError(
            f"--keep_layers={','.join(map(str, layers))}; the model has "
            f"the layers 0 to {before - 1}: name some of them, each once, "
            f"or one number of layers, 1 to {before}."
        )
    number_of = {str(old): str(new) for new, old in enumerate(layers)}
    values = {}
    for name, value in model.values.items():
        found = _LAYER.search(name)
        if not found or found.group() in number_of:
            ours = _LAYER.sub(lambda old: number_of[old.group()], name)
            values[ours] = value
    model.values = values
    model.resize(num_hidden_layers=len(layers))
    logging.info(
        "Layers 0 to %d were layers %s of %d. Train before you rely on "
        "the model.",
        *(len(layers) - 1, ", ".join(map(str, layers)), before),
    )


def _keep_words(model: ChangedModel) -> None:
    """Keeps the wordpieces that --input_file uses, the most frequent first.

    A text that has only these has the same wordpieces as before. All special
    tokens, words of --extra_words and single characters stay; raises ValueError
    if the vocabulary lacks one, or they are more than --keep_words.
    """
    ids = model.ids
    special = dict.fromkeys((*SPECIAL_TOKENS, *model.texts.never_split))
    if path := model.options.extra_words:
        special |= dict.fromkeys(growth.words_of(path))
    require_tokens(ids, special, "--keep_words: the vocabulary")
    single = {t for t in ids if len(t.removeprefix("##")) == 1}
    stay = single.union(special)
    number = model.options.keep_words - len(stay)
    if number < 0:
        raise ValueError(
            f"--keep_words={model.options.keep_words}; {len(special)} special "
            f"tokens and words of --extra_words and {len(single)} single "
            f"characters stay, so give at least {len(stay)}."
        )
    counts = _count_pieces(model, ids)
    frequent = [t for t, _ in counts.most_common() if t not in stay]
    kept = stay.union(frequent[:number])
    # Ids keep their order, so that [PAD] stays 0.
    rows = sorted(ids[token] for token in kept)
    share = sum(counts[t] for t in kept) / max(1, counts.total())
    logging.info(
        "%d of %d wordpieces are kept: %d special tokens and words of "
        "--extra_words, %d single characters, %d more that the text uses. "
        "%.2f %% of the text's wordpieces are kept; the rest become shorter "
        "ones.",
        *(len(kept), len(ids), len(special), len(single)),
        *(len(kept) - len(stay), 100 * share),
    )
    model.take(TOKENS, [[row] for row in rows])
    model.tokens = [model.tokens[row] for row in rows]
    model.resize(vocab_size=len(rows))


def _count_pieces(
    model: ChangedModel, ids: Mapping[str, int]
) -> collections.Counter[str]:
    counts, tokenizer = collections.Counter(), WordpieceTokenizer(ids)
    paths = files.expand_patterns(model.options.input_file)
    words = count_words(paths, do_lower_case=model.texts.do_lower_case)
    for word, count in words.items():
        for piece in tokenizer.tokenize(word):
            counts[piece] += count
    return counts


def _megabytes(model: ChangedModel) -> float:
    """The size of the weights in float32."""
    return sum(map(np.size, model.values.values())) * _BYTES / 1e6
