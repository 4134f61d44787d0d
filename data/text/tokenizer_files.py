"""Hugging Face's files of a tokenizer: what they say, and what is refused.

    tokenizer_config.json     class, lower-casing, special tokens
    tokenizer.json            the same for a fast tokenizer, and its vocabulary
    special_tokens_map.json   special tokens
    added_tokens.json         tokens after vocab.txt's, with their ids

A folder of the original's format may have the first, too: convert_checkpoint.py
writes it.
"""

import dataclasses
import json
import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from data.storage import files
from data.storage.json_files import find_json
from data.text import vocabulary
from data.text.vocabulary import FAST, AddedToken, is_cased

CONFIG, SPECIAL = "tokenizer_config.json", "special_tokens_map.json"
_FILES = (CONFIG, FAST, SPECIAL, "config.json")
# transformers' name of a special token -> the token of BERT.
SPECIAL_TOKENS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
# Keys with tokens that are never split; the first is the usual one.
WHOLE = ("additional_special_tokens", "extra_special_tokens", "never_split")
_CLASSES = ("BertTokenizer", "ElectraTokenizer", "DistilBertTokenizer")
# Classes that do what tokenizer.json says.
_OF_FAST = ("PreTrainedTokenizerFast", "TokenizersBackend")
_BOOLEANS = (True, False)
# Key -> the values that `FullTokenizer` can have.
_HONOURED = {
    "tokenizer_class": (*_CLASSES, *(f"{c}Fast" for c in _CLASSES), *_OF_FAST),
    "do_lower_case": _BOOLEANS,
    "strip_accents": _BOOLEANS,
    "tokenize_chinese_chars": (True,),
    "do_basic_tokenize": (True,),
    # Padding is not text.
    **{x: (SPECIAL_TOKENS[x],) for x in SPECIAL_TOKENS if x != "pad_token"},
    # Of tokenizer.json.
    "normalizer.type": ("BertNormalizer",),
    "normalizer.lowercase": _BOOLEANS,
    "normalizer.strip_accents": _BOOLEANS,
    "normalizer.handle_chinese_chars": (True,),
    "normalizer.clean_text": (True,),
    "pre_tokenizer.type": ("BertPreTokenizer",),
    "model.type": ("WordPiece",),
    "model.continuing_subword_prefix": ("##",),
}
_PARTS = ("normalizer", "pre_tokenizer", "model")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """How texts became wordpieces in the training of a model.

    `do_lower_case` is None if no file says it.
    """

    do_lower_case: bool | None = None
    never_split: tuple[str, ...] = ()

    def lower_case(self, given: bool | None, vocab: Mapping[str, int]) -> bool:
        """`given`, else `do_lower_case`, else whether `vocab` is uncased."""
        known = given, self.do_lower_case, not is_cased(vocab)
        return next(lower for lower in known if lower is not None)

    def to_dict(self) -> dict[str, Any]:
        """Returns the content of a `tokenizer_config.json` that says so."""
        whole = {WHOLE[0]: list(self.never_split)} if self.never_split else {}
        return whole | {
            **SPECIAL_TOKENS,
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": self.do_lower_case,
            "strip_accents": None,  # None = as do_lower_case
            "tokenize_chinese_chars": True,
        }


def read_settings(
    folder: str, facts: Mapping[str, Any] | None = None
) -> TokenizerSettings:
    """Reads the settings of the tokenizer in a model's folder.

    What a run says in `facts` (see `ModelFolder`) has precedence. Raises
    ValueError if a file is damaged or says what `FullTokenizer` does not do, or
    two files contradict each other.
    """
    if "do_lower_case" in (facts or {}):
        return TokenizerSettings(
            do_lower_case=facts["do_lower_case"],
            never_split=tuple(facts.get("never_split", ())),
        )
    said = {name: _read(os.path.join(folder, name)) for name in _FILES}
    lower = _lower_case(folder, said)
    _check_same_vocabulary(folder, said[FAST])
    whole = dict.fromkeys(_special_tokens(said))
    for added in vocabulary.added_tokens(folder):
        _check_added(added, lower)
        whole[added.token] = None
    # As in the original, the text [MASK] is not a special token.
    whole = [token for token in whole if token not in SPECIAL_TOKENS.values()]
    return TokenizerSettings(do_lower_case=lower, never_split=tuple(whole))


def _read(path: str) -> dict[str, Any]:
    """Returns a file's content, with the keys of its parts as `part.key`."""
    content = find_json(path, remedy="get the folder again")
    flat = dict(content)
    for part in filter(content.__contains__, _PARTS):
        values = content[part]
        if not isinstance(values, dict):
            values = {"type": values or "none"}
        flat |= {f"{part}.{key}": value for key, value in values.items()}
    # What `FullTokenizer` does not do is refused.
    for key, honoured in _HONOURED.items():
        value = flat.get(key)
        value = value.get("content") if isinstance(value, dict) else value
        if value is not None and value not in honoured:
            raise _other(path, key, value, honoured)
    return flat


def _lower_case(
    folder: str, said: Mapping[str, Mapping[str, Any]]
) -> bool | None:
    """Whether text is lower-cased; refuses files that contradict each other."""
    path, config = os.path.join(folder, CONFIG), said[CONFIG]
    ours = config.get("do_lower_case")
    theirs = said[FAST].get("normalizer.lowercase")
    is_default = ours is None and files.exists(path)
    if is_default and config.get("tokenizer_class") not in _OF_FAST:
        ours = True  # as transformers
    if None not in (ours, theirs) and ours != theirs:
        default = " (which is its default)" if is_default else ""
        raise ValueError(
            f"{path} says do_lower_case: {json.dumps(ours)}{default}, but "
            f"{FAST} beside it says lowercase: {json.dumps(theirs)}; correct "
            "the one that is not the model's."
        )
    lower = theirs if ours is None else ours
    keys = {CONFIG: "strip_accents", FAST: "normalizer.strip_accents"}
    for name, key in keys.items():
        accents = said[name].get(key)
        if accents not in (None, lower):
            raise _other(os.path.join(folder, name), key, accents, (lower,))
    return lower


def _check_same_vocabulary(folder: str, fast: Mapping[str, Any]) -> None:
    """Refuses a tokenizer.json with other ids than vocab.txt."""
    path = os.path.join(folder, "vocab.txt")
    theirs = fast.get("model.vocab")
    if not isinstance(theirs, dict) or not files.exists(path):
        return
    ours = {line.strip(): i for i, line in enumerate(files.read_lines(path))}
    for token, i in theirs.items():
        if token.strip() == token and ours.get(token) != i:
            raise ValueError(
                f"{os.path.join(folder, FAST)} has the token {token!r} with "
                f"the id {i}, but {path} has it with {ours.get(token, 'none')};"
                " remove the file that is not the model's."
            )


def _special_tokens(said: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields the tokens of `WHOLE`."""
    for name in (CONFIG, SPECIAL):
        for key in WHOLE:
            tokens = said[name].get(key) or ()
            # Some versions of transformers name each of them.
            if isinstance(tokens, dict):
                tokens = tokens.values()
            for token in [tokens] if isinstance(tokens, str) else tokens:
                yield token["content"] if isinstance(token, dict) else token


def _check_added(added: AddedToken, lower: bool | None) -> None:
    """Refuses an added token that would match text differently here."""
    if added.token in SPECIAL_TOKENS.values():
        return
    key = f"added token {added.id}"
    if added.said.get("single_word"):
        raise _other(added.path, f"{key}, single_word", True, (False,))
    normal = unicodedata.normalize("NFD", added.token.lower())
    if lower and normal != added.token and added.said.get("normalized"):
        raise _other(added.path, f"{key}, content", added.token, (normal,))


def _other(
    path: str, key: str, value: Any, honoured: Sequence[Any]
) -> ValueError:
    """The error for a tokenizer that works differently from ours."""
    ours = " or ".join(map(json.dumps, honoured[:2]))
    return ValueError(
        f"{path} says {key}: {json.dumps(value)}, but here it is {ours}: texts "
        "would become other wordpieces than in the training. Take another "
        "model, or its encoder alone (BertModel.from_folder) with a tokenizer "
        "of your own; or correct the file, if you accept other wordpieces."
    )
