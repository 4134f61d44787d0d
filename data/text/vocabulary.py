"""WordPiece vocabulary files: one token a line, the line number is the id."""

import hashlib
import json
import os
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from absl import logging

from data.settings import Settings, amount, positive, setting
from data.storage import files
from data.storage.json_files import find_json, read_json

# Files of Hugging Face: a fast tokenizer with its vocabulary, and added tokens.
FAST, ADDED = "tokenizer.json", "added_tokens.json"
_CASED_SHARE = 0.01  # of the wordpieces
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def load_vocab(vocab_file: str) -> dict[str, int]:
    r"""Reads a vocabulary file to a dict of token -> id, in the file's order.

    Ids count lines from 0; only `\n` ends a line. White space around a token is
    removed. A repeated token has its last id. Raises ValueError if the file is
    empty, not UTF-8, or see `read_tokens`.

    Source: `load_vocab` of the original's tokenization.py.
    """
    tokens = [line.strip() for line in read_tokens(vocab_file)]
    vocab = {token: i for i, token in enumerate(tokens)}
    # Differs from the original: it returns an empty vocabulary, because of
    # which every word would become an unknown one.
    if not vocab:
        raise ValueError(
            f"{vocab_file} is empty; expected a vocabulary with one token a "
            "line (build_vocab.py makes one)."
        )
    if len(vocab) < len(tokens):
        first = next(i for i, t in enumerate(tokens) if vocab[t] != i)
        logging.warning(
            f"{vocab_file}: {len(tokens) - len(vocab)} of {len(tokens)} lines "
            f"repeat an earlier token, such as {tokens[first]!r} with the ids "
            f"{first} and {vocab[tokens[first]]}; the last id counts."
        )
    return vocab


class LearningOptions(Settings):
    """How a vocabulary is learned."""

    vocab_size: int = positive(
        30522, "Number of tokens; fewer if the text is small."
    )
    reserved_tokens: list[str] = setting(
        SPECIAL_TOKENS, "Tokens at the head of the vocabulary, [PAD] first."
    )
    num_unused: int = amount(
        0, "[unusedN] tokens after [PAD]; 99 as in the released vocabularies."
    )
    min_frequency: int = positive(
        2, "How often a piece must occur in the text."
    )
    max_characters: int = positive(
        1000,
        "Number of different characters to keep, the most frequent ones; raise "
        "it for Chinese or Japanese.",
    )

    def _check(self) -> None:
        tokens = self.reserved_tokens
        missing = [token for token in SPECIAL_TOKENS if token not in tokens]
        wrong = [x for x in tokens if tokens.count(x) > 1 or x.split() != [x]]
        if missing or wrong or tokens[0] != "[PAD]":
            raise ValueError(
                f"--reserved_tokens={','.join(tokens)}; they must begin with "
                f"[PAD] and hold {','.join(SPECIAL_TOKENS)}, each once and as "
                "one word."
            )


class AddedToken(NamedTuple):
    """A token that the Hugging Face file at `path` names; what it says of it.

    `said` has `normalized` (it is looked for in the lower-cased text) and
    `single_word` (only between other words).
    """

    path: str
    id: int
    token: str
    said: Mapping[str, Any]


def read_tokens(vocab_file: str) -> list[str]:
    """Returns the tokens of a vocabulary in the order of their ids.

    The file is UTF-8 text with a token a line or, by its ending, the
    `tokenizer.json` of a WordPiece model of Hugging Face. The tokens of
    `added_tokens` follow those of a `vocab.txt` or `tokenizer.json`. Raises
    ValueError if the file cannot be read or an added token has no place.
    """
    read = _wordpieces if vocab_file.endswith(".json") else files.read_lines
    folder, name = os.path.split(vocab_file)
    tokens = list(read(vocab_file))
    added = added_tokens(folder) if name in ("vocab.txt", FAST) else ()
    for place, token in sorted({x.id: x.token for x in added}.items()):
        if place == len(tokens):
            tokens.append(token)
        there = [other.strip() for other in tokens[place : place + 1]]
        if there != [token.strip()]:
            raise ValueError(
                f"{vocab_file} has {len(tokens)} tokens, and {there} with the "
                f"id {place}, but the tokens added to it say {token!r}; "
                "correct one of them, or add lines for the ids between."
            )
    return tokens


def added_tokens(folder: str) -> list[AddedToken]:
    """Reads the tokens that files beside a vocabulary name with their ids.

    Some of them may be in the vocabulary. Raises ValueError if a file is
    damaged or an id has two tokens.
    """
    config, added = "tokenizer_config.json", []

    def read(name: str) -> Any:
        return find_json(os.path.join(folder, name))

    def add(name: str, i: int | str, token: Mapping[str, Any]) -> None:
        path, text = os.path.join(folder, name), str(token["content"])
        added.append(AddedToken(path, int(i), text, token))

    try:
        for text, i in read(ADDED).items():
            add(ADDED, i, {"content": text})
        decoded = read(config).get("added_tokens_decoder") or {}
        for i, token in decoded.items():
            add(config, i, token)
        for token in read(FAST).get("added_tokens") or ():
            add(FAST, token["id"], token)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{folder}: the added tokens cannot be read ({error!r:.80}) from "
            f"{ADDED}, tokenizer_config.json or {FAST}; get the folder again."
        ) from None
    tokens = {}
    for path, i, token, _ in added:
        if tokens.setdefault(i, token) != token:
            raise ValueError(
                f"{path} says that token {i} is {token!r}, but another file "
                f"beside it says {tokens[i]!r}; correct one of them."
            )
    return added


def _wordpieces(path: str) -> list[str]:
    """Returns the vocabulary of a `tokenizer.json`, without added tokens."""
    try:
        model = read_json(path, ("model",))["model"]
        ids = model["vocab"]
        is_whole = sorted(ids.values()) == list(range(len(ids)))
        if model.get("type") != "WordPiece" or not is_whole:
            raise ValueError(f"its model is {model.get('type')!r}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is not a {FAST} of Hugging Face with 'WordPiece' ids from "
            f"0 without a gap ({error!r:.80}); get it again, or give a "
            "vocab.txt as --vocab_file."
        ) from None
    return sorted(ids, key=ids.get)


def is_cased(vocab: Mapping[str, int]) -> bool:
    """Returns whether a vocabulary was made of text with capitals or accents.

    In a released cased vocabulary, a sixth of the wordpieces or more have
    some; in an uncased one none; in the Chinese one two, <S> and <T>.
    """
    return len(cased_tokens(vocab)) > _CASED_SHARE * len(vocab)


def warn_of_case(
    vocab: Mapping[str, int], vocab_file: str, do_lower_case: bool
) -> None:
    """Warns if the vocabulary was made for the other case."""
    cased = cased_tokens(vocab)
    if len(cased) > _CASED_SHARE * len(vocab) and do_lower_case:
        logging.warning(
            "%s has %d wordpieces with capitals or accents, such as %s, but "
            "text loses both; give --do_lower_case=false for a cased model.",
            *(vocab_file, len(cased), cased[0]),
        )
    elif not cased and not do_lower_case:
        logging.warning(
            "%s has no wordpiece with a capital: with --do_lower_case=false "
            "most words with one become [UNK]; it is for cased models.",
            vocab_file,
        )


def cased_tokens(vocab: Mapping[str, int]) -> list[str]:
    """Returns the tokens with capitals or accents, without the special ones."""
    words = (token for token in vocab if not token.startswith("["))
    return [x for x in words if x != x.lower() or has_accent(x)]


def has_accent(word: str) -> bool:
    """Whether the tokenizer drops an accent of a lower-cased word."""
    if word.isascii():
        return False
    return "Mn" in map(unicodedata.category, unicodedata.normalize("NFD", word))


def num_ids(vocab: Mapping[str, int]) -> int:
    """Returns the number of ids of a vocabulary, without empty lines' ids."""
    return 1 + max((i for token, i in vocab.items() if token), default=-1)


def padded_sizes(size: int) -> set[int]:
    """Returns the sizes of an embedding table for this many ids.

    It may be padded to a multiple of 8, 64 or 128.
    """
    return {-(-size // m) * m for m in (1, 8, 64, 128)}


def require_size(
    vocab: Mapping[str, int], vocab_file: str, vocab_size: int, config_file: str
) -> None:
    """Refuses a vocabulary that a model was not trained with.

    `vocab_size` is the number of rows of the model's embedding table; the error
    names both files.
    """
    size = num_ids(vocab)
    # Differs from the original: the sizes are compared, because the vocabulary
    # of another model would map words to the wrong ids without an error.
    if vocab_size not in padded_sizes(size):
        raise ValueError(
            f"{vocab_file} has {size} wordpieces, but {config_file} says "
            f"vocab_size {vocab_size}; give the vocabulary of the model. If "
            "this is it, but too small, append lines such as [unused7]."
        )


def require_tokens(
    vocab: Mapping[str, int],
    tokens: Iterable[str],
    path: str,
    remedy: str = "give the vocabulary of a BERT model, or make one with "
    "build_vocab.py",
) -> None:
    """Refuses a vocabulary (token -> id) that lacks tokens of a program.

    The error names all that are missing, `path`, where the vocabulary came
    from, and the remedy.
    """
    if missing := [token for token in tokens if token not in vocab]:
        raise ValueError(
            f"{path} has no {', '.join(missing)} among its {len(vocab)} "
            f"tokens; {remedy}."
        )


def write_vocab(path: str, tokens: Iterable[str]) -> None:
    """Writes tokens, one a line in the order of their ids."""
    files.write_text(path, "".join(f"{token}\n" for token in tokens))


def sha256(vocab: Mapping[str, int]) -> str:
    """Returns a checksum of token -> id, equal for files of equal tokens."""
    return hashlib.sha256(json.dumps([*vocab.items()]).encode()).hexdigest()


def require_same(path: str, given: str) -> None:
    """Refuses a vocabulary that is not that of a model, `path`."""
    if found := difference(path, given):
        raise ValueError(
            f"--vocab_file={given}, but the model was made with {path} "
            f"({found}); leave it out, or give another model or --output_dir."
        )


def difference(path: str, other: str) -> str:
    """Returns where two vocabularies differ; "" = nowhere."""
    ours, theirs = ([t.strip() for t in read_tokens(x)] for x in (path, other))
    if len(ours) != len(theirs):
        return f"{len(ours)} -> {len(theirs)} tokens"
    pairs = enumerate(zip(ours, theirs, strict=True))
    differs = [f"token {i}: {a!r} -> {b!r}" for i, (a, b) in pairs if a != b]
    more = f" and {len(differs) - 1} more" if len(differs) > 1 else ""
    return f"{differs[0]}{more}" if differs else ""
