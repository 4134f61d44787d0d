"""Adds words and positions to a model, initialized from its weights."""

import re
from collections.abc import Collection

from absl import logging

from data.storage import files
from data.text.tokenization import BasicTokenizer, WordpieceTokenizer
from training.convert.changed_model import POSITIONS, TOKENS, ChangedModel

_UNUSED = re.compile(r"\[unused\d+\]")


def add_positions(model: ChangedModel, number: int) -> None:
    """Repeats the rows of the positions until there are `number`.

    Raises ValueError if the model has more positions already.
    """
    before = model.config.max_position_embeddings
    if number < before:
        raise ValueError(
            f"--max_position_embeddings={number}; the model has {before} "
            "positions, which are not taken away: shorter texts need no "
            "conversion. Give a larger number, or leave the flag out."
        )
    model.take(POSITIONS, [[i % before] for i in range(number)])
    model.resize(max_position_embeddings=number)
    if number > before:
        logging.warning(
            "Positions %d to %d repeat positions 0 to %d and are not "
            "trained. Train on long texts before you rely on them, with "
            "--max_seq_length up to %d. Attention takes %.1f times the "
            "memory and time there.",
            *(before, number - 1, before - 1, number),
            (number / before) ** 2,
        )


def add_words(model: ChangedModel) -> None:
    """Adds the words of a file, in rows named `[unusedN]`, then in new rows.

    The first weights of a word are the mean of its wordpieces' weights. Words
    of the vocabulary are left as they are. Raises ValueError if the file has no
    words, or the tokenizer would never make one of them; words in
    --never_split it need not make.
    """
    words = words_of(model.options.extra_words)
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


def words_of(path: str) -> list[str]:
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
        lower = "lower-cased, " if basic.do_lower_case else ""
        raise ValueError(
            f"{source}: {len(cut)} of {len(words)} words would never be found "
            f"in a text: {', '.join(cut):.300}. Text is {lower}split at space, "
            "at punctuation and around each Chinese character, and words over "
            f"{longest} characters are unknown: {cut[0][:longest]!r} becomes "
            f"{becomes[:longest]!r}. Write them so, leave them out, or name "
            "them in --never_split."
        )
