"""Case, vocabulary, model and number of updates that fit a text.

Without minutes the model has 2 layers of 128. Narrower ones are worse even for
11,000 wordpieces of text.
"""

from typing import NamedTuple

from data.pretraining import corpus
from data.storage import files, json_files
from data.text.tokenization import BasicTokenizer
from data.text.vocabulary import SPECIAL_TOKENS, has_accent
from modeling.config import BertConfig
from training.config import recipes

# More words with accents than this need them. English novels have 0.04 %,
# Turkish news 30 %.
_MOST_ACCENTS = 0.02
_MOST_CHARACTERS = 1000  # as build_vocab.py keeps
# From more passes over a text of 30,000 wordpieces the held-out loss rises.
_PASSES = 30
_LEAST_STEPS = 100
_QUICK = recipes.Sizes(2, 128, 5000, 32, 740)


class Sizes(NamedTuple):
    """What the demo makes of a text.

    Attributes:
      do_lower_case: whether text is lower-cased and loses its accents.
      vocab_size: most wordpieces of the vocabulary.
      model: the model and its batches.
      reason: explanation of the choice, for the user.
    """

    do_lower_case: bool
    vocab_size: int
    model: recipes.Sizes
    reason: str


def check(path: str) -> None:
    """Refuses a text that the demo cannot divide; reads all of it.

    Raises ValueError, with the path, for too few sentences, no words, or bytes
    that are not UTF-8.
    """
    text = words = " ".join(files.read_lines(path))
    for token in SPECIAL_TOKENS:
        words = words.replace(token, " ")
    if text.strip() and not any(map(str.isalpha, words)):
        raise ValueError(
            f"{path} holds no words beside tokens; give a text of sentences."
        )
    corpus.parts_of(path)


def of_text(path: str, most_wordpieces: int | None, minutes: float) -> Sizes:
    """Chooses what fits the training text.

    `most_wordpieces` bounds the vocabulary, None = as the model does. `minutes`
    of training choose the model, 0 = the quick one.
    """
    text = " ".join(files.read_lines(path))
    words = text.split()
    share = sum(map(has_accent, words)) / len(words)
    lower = share <= _MOST_ACCENTS
    # Chinese characters are words.
    cut = BasicTokenizer(lower).tokenize(text)
    characters = min(len(set("".join(cut))), _MOST_CHARACTERS)
    vocab_size = max(2 * characters + 500, len(cut) // 20)
    model = recipes.best_sizes(minutes, len(cut)) if minutes else _QUICK
    reason = (
        f"{len(cut):,} words, {share:.1%} of them with accents, which are "
        f"{'dropped, and so are capitals' if lower else 'kept, with capitals'}"
    )
    if minutes:
        reason += f"; for {minutes:g} minutes: {model}"
    most = max(most_wordpieces or model.vocab_size, 2 * characters + 100)
    return Sizes(lower, min(vocab_size, most), model, reason)


def num_train_steps(records: str, wordpieces_of_step: int, most: int) -> int:
    """Limits the number of updates so that the model does not overfit.

    `records` are the training records, whose manifest has the text's size.
    """
    counts = json_files.read_json(records + files.MANIFEST_SUFFIX)["counts"]
    steps = _PASSES * counts["wordpieces"] // wordpieces_of_step
    return min(most, max(_LEAST_STEPS, steps))


def write_config(
    path: str, vocab_size: int, layers: int, width: int, positions: int
) -> None:
    """Writes the configuration of a model, with 4 heads or heads of 64."""
    config = BertConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=max(4, width // 64),
        intermediate_size=4 * width,
        max_position_embeddings=positions,
        type_vocab_size=2,
    )
    files.write_text(path, config.to_json_string())
