"""Adds words and positions to a model, and takes words and layers away."""

import collections
import re
from collections.abc import Collection, Sequence

import numpy as np
from absl import logging

from data.storage import files
from data.text.tokenization import BasicTokenizer, WordpieceTokenizer
from data.text.vocabulary import SPECIAL_TOKENS, require_tokens
from data.text.vocabulary_building import count_words
from training.convert.changed_model import POSITIONS, TOKENS, ChangedModel

_UNUSED = re.compile(r"\[unused\d+\]")
_LAYER = re.compile(r"(?<=/encoder/layer_)\d+(?=/)")


def change(model: ChangedModel) -> None:
    """Does what the options say."""
    options = model.options
    if options.max_position_embeddings:
        _add_positions(model, options.max_position_embeddings)
    if options.extra_words:
        _add_words(model)
    before = _megabytes(model)
    if options.keep_layers:
        _keep_layers(model, options.keep_layers)
    if options.keep_words:
        _keep_words(model)
    if options.keep_layers or options.keep_words:
        now = _megabytes(model)
        logging.info(
            "Weights: %.1f MB before, %.1f MB now (%.2f of it), in float32.",
            *(before, now, now / before),
        )


def _add_positions(model: ChangedModel, number: int) -> None:
    """Repeats the rows of the positions until there are `number`.

    Raises ValueError if the model has more positions already.
    """
    before = model.config.max_position_embeddings
    if number < before:
        raise ValueError(
            f"--max_position_embeddings={number}; the model has {before} "
            "positions. Give a larger number, or leave the flag out."
        )
    model.take(POSITIONS, [[i % before] for i in range(number)])
    model.resize(max_position_embeddings=number)
    if number > before:
        logging.warning(
            "Positions %d to %d repeat positions 0 to %d; train on long texts "
            "before you rely on them, with --max_seq_length up to %d. "
            "Attention takes %.1f times the memory and time there.",
            *(before, number - 1, before - 1, number, (number / before) ** 2),
        )


def _add_words(model: ChangedModel) -> None:
    """Adds the words of a file, in rows named `[unusedN]`, then in new rows.

    A new word's weights are initialized to the mean of its wordpieces' weights.
    Words of the vocabulary are unchanged. Raises ValueError if the file has no
    words, or the tokenizer would never produce one of them that is not in
    --never_split.
    """
    words = _words_of(model.options.extra_words)
    basic = BasicTokenizer(model.texts.do_lower_case)
    _require_whole(model, words, basic)
    tokens, ids = model.tokens, model.ids
    del tokens[1 + max(ids.values()) :]  # blank lines at the end
    wordpiece = WordpieceTokenizer(ids)
    new = [word for word in words if word not in ids]
    unused = [i for i, t in enumerate(tokens) if _UNUSED.fullmatch(t)]
    rows = [[row] for row in range(model.config.vocab_size)]
    of_unknown = []
    for number, word in enumerate(new):
        pieces = wordpiece.tokenize(" ".join(basic.tokenize(word)))
        pieces = pieces or [wordpiece.unk_token]
        if {*pieces} == {wordpiece.unk_token}:
            of_unknown.append(word)
        row = unused[number] if number < len(unused) else len(tokens)
        tokens[row : row + 1] = [word]
        rows[row : row + 1] = [[ids[piece] for piece in pieces]]
    model.take(TOKENS, rows)
    model.resize(vocab_size=len(rows))
    num_unused = min(len(new), len(unused))
    logging.info(
        "Of %d words, %d replace [unused] tokens and %d are new rows. Each "
        "begins with the mean of its wordpieces' weights and needs training.",
        *(len(words), num_unused, len(new) - num_unused),
    )
    told = {"are in the vocabulary already": sorted(set(words) - set(new))}
    told["have no wordpieces but [UNK]"] = of_unknown
    for what, found in told.items():
        if found:
            named = ", ".join(found)
            logging.warning("%d words %s: %.300s", len(found), what, named)


def _words_of(path: str) -> list[str]:
    """Reads the words of --extra_words, each once."""
    lines = map(str.strip, files.read_lines(path))
    return list(dict.fromkeys(filter(None, lines)))


def _require_whole(
    model: ChangedModel, words: Collection[str], basic: BasicTokenizer
) -> None:
    """Refuses words that the tokenizer would never make."""
    source = f"--extra_words={model.options.extra_words}"
    if not words:
        raise ValueError(f"{source} has no words; expected one on each line.")
    longest = WordpieceTokenizer(()).max_input_chars_per_word
    split = [w for w in words if w not in model.options.never_split]
    cut = [w for w in split if basic.tokenize(w) != [w] or len(w) > longest]
    if cut:
        becomes = " ".join(basic.tokenize(cut[0])) or "nothing"
        raise ValueError(
            f"{source}: {len(cut)} of {len(words)} words would never be found "
            f"in a text: {', '.join(cut):.300}. Text is split at space, at "
            "punctuation and around each Chinese character, and lower-cased "
            f"for an uncased model; words over {longest} characters are "
            f"unknown: {cut[0][:longest]!r} becomes {becomes[:longest]!r}. "
            "Write words this way, omit them, or name them in --never_split."
        )


def evenly(number: int, of: int) -> list[int]:
    """Returns `number` of `of` layers, as far apart as can be, from layer 0.

    Source: the students of DistilBERT take every other layer of their teacher.
    """
    return [i * of // number for i in range(number)]


def _keep_layers(model: ChangedModel, layers: Sequence[int]) -> None:
    """Keeps these layers, in this order; refuses others and repeated ones.

    One number is how many layers are kept, see `evenly`.
    """
    before = model.config.num_hidden_layers
    if len(layers) == 1 and 0 < layers[0] <= before:
        layers = evenly(layers[0], of=before)
    if len({*layers} & {*range(before)}) < len(layers):
        raise ValueError(
            f"--keep_layers={','.join(map(str, layers))}; name some of the "
            f"layers 0 to {before - 1}, each once, or how many, 1 to {before}."
        )
    number_of = {str(old): str(new) for new, old in enumerate(layers)}
    model.values = {
        _LAYER.sub(lambda old: number_of[old.group()], name): value
        for name, value in model.values.items()
        if number_of.keys() >= {*_LAYER.findall(name)}
    }
    model.resize(num_hidden_layers=len(layers))
    logging.info(
        "Layers 0 to %d were layers %s of %d. Train the model before its use.",
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
        special |= dict.fromkeys(_words_of(path))
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
    counts, tokenizer = collections.Counter(), WordpieceTokenizer(ids)
    paths = files.expand_patterns(model.options.input_file)
    words = count_words(paths, do_lower_case=model.texts.do_lower_case)
    for word, count in words.items():
        for piece in tokenizer.tokenize(word):
            counts[piece] += count
    frequent = [t for t, _ in counts.most_common() if t not in stay]
    kept = stay.union(frequent[:number])
    # Ids keep their order, so that [PAD] stays 0.
    rows = sorted(ids[token] for token in kept)
    share = sum(counts[t] for t in kept) / max(1, counts.total())
    logging.info(
        f"{len(kept)} of {len(ids)} wordpieces are kept: {len(special)} "
        f"special tokens and words of --extra_words, {len(single)} single "
        f"characters, {len(kept) - len(stay)} more that the text uses: "
        f"{100 * share:.2f} % of the text's; the rest become shorter ones."
    )
    model.take(TOKENS, [[row] for row in rows])
    model.tokens = [model.tokens[row] for row in rows]
    model.resize(vocab_size=len(rows))


def _megabytes(model: ChangedModel) -> float:
    """The size of the weights in float32, of 4 bytes."""
    return sum(map(np.size, model.values.values())) * 4 / 1e6
