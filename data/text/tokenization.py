"""Converts text to WordPieces exactly as the original release does.

    text --BasicTokenizer--> words and punctuation
         --WordpieceTokenizer--> pieces --vocabulary--> ids

Two things make it fast. The replacement of a character (nothing, a space, or
itself between spaces) depends only on the character, so `str.translate` uses a
table. The pieces of a word depend only on the word, so `FullTokenizer` caches
them.
"""

import bisect
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from typing import Any

# The original has `load_vocab` in this file.
from data.text.vocabulary import load_vocab, require_tokens

_CJK = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df"
    "\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f]"
)
# Python's split() splits at these control characters. BERT deletes them first,
# so the text around them is one word.
_JOINING = re.compile("[\v\f\x1c-\x1f\x85]")
_SURROGATES = re.compile("[\ud800-\udfff]")

_ADD_WORDS = "add them by --extra_words of convert_checkpoint.py"
# Released model -> whether it was pretrained on lower-cased text.
_LOWER_CASED = {
    "uncased_L-24_H-1024_A-16": True,
    "uncased_L-12_H-768_A-12": True,
    "multilingual_L-12_H-768_A-12": True,
    "chinese_L-12_H-768_A-12": True,
    "cased_L-12_H-768_A-12": False,
    "cased_L-24_H-1024_A-16": False,
    "multi_cased_L-12_H-768_A-12": False,
}


class FullTokenizer:
    """Text to WordPieces and ids.

    Text is split by `BasicTokenizer` and `WordpieceTokenizer`; set
    `do_lower_case` to False for a cased vocabulary. No text is special:
    `[MASK]` becomes `[`, `mask`, `]`, unless `never_split` has it. Its tokens
    stay whole wherever a text has them; the text before and the text after are
    tokenized separately. ValueError: they are not in the vocabulary.

    `vocab` is token -> id, `inv_vocab` id -> token.

    Source: `FullTokenizer` of the original; `encode`, `never_split` are new.
    """

    def __init__(
        self,
        vocab_file: str,
        do_lower_case: bool = True,
        never_split: Collection[str] = (),
    ):
        self.vocab = load_vocab(vocab_file)
        self._never_split = never_split and re.compile(any_of(never_split))
        self.never_split = tuple(never_split)
        require_tokens(self.vocab, never_split, vocab_file, _ADD_WORDS)
        self.inv_vocab = {i: token for token, i in self.vocab.items()}
        self.basic_tokenizer = BasicTokenizer(do_lower_case)
        self.wordpiece_tokenizer = WordpieceTokenizer(self.vocab)
        # Caches for words ("dog"), and for the parts between white space
        # ("dog's.").
        self._pieces = _Memo(self.wordpiece_tokenizer.tokenize)
        self._ids = _Memo(self._cut_to_ids)

    def tokenize(self, text: str | bytes) -> list[str]:
        """Cuts text (bytes are read as UTF-8) into WordPieces."""
        words = self.words(convert_to_unicode(text))
        return [piece for _, pieces in words for piece in pieces]

    def encode(self, text: str | bytes) -> list[int]:
        """Equals `convert_tokens_to_ids(tokenize(text))`, but faster."""
        ids = []
        for part, is_token in self._divided(convert_to_unicode(text)):
            if is_token:
                ids.append(self.vocab[part])
                continue
            if not part.isprintable():
                part = _JOINING.sub("", part)
            parts = map(self._ids.__getitem__, part.split())
            ids.extend(chain.from_iterable(parts))
        return ids

    def words(self, text: str) -> list[tuple[str, list[str]]]:
        """Returns words and punctuation as in a text, each with its pieces."""
        found = []
        for part, is_token in self._divided(text):
            if is_token:
                found.append((part, [part]))
                continue
            for word in self.basic_tokenizer.tokenize(part):
                found.append((word, list(self._pieces[word])))
        return found

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Returns start and end (exclusive) of each of `words` in the text.

        A word ends with the combining marks on its last character, see
        `InGraphTokenizer.tokenize_with_offsets`.
        """
        found, before = [], 0
        for part, is_token in self._divided(text):
            of_part = [(0, len(part))]
            if not is_token:
                of_part = self.basic_tokenizer.spans(part)
            found += [(before + i, before + j) for i, j in of_part]
            before += len(part)
        return found

    def _divided(self, text: str) -> list[tuple[str, bool]]:
        """Returns the parts of a text; which ones `never_split` has."""
        if not self._never_split:
            return [(text, False)]
        parts = self._never_split.split(text)
        return [(part, number % 2 == 1) for number, part in enumerate(parts)]

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
        """Looks up the ids of tokens (see `convert_by_vocab`)."""
        return convert_by_vocab(self.vocab, tokens)

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Looks up the tokens of ids (see `convert_by_vocab`)."""
        return convert_by_vocab(self.inv_vocab, ids)

    def _cut_to_ids(self, text: str) -> list[int]:
        words = self.basic_tokenizer.tokenize(text)
        pieces = map(self._pieces.__getitem__, words)
        return self.convert_tokens_to_ids(chain.from_iterable(pieces))


class BasicTokenizer:
    """Text to words and punctuation, lower-cased and without accents.

    In this order: control characters are deleted and every white space made a
    plain space; CJK ideographs become words of one character each; with
    `do_lower_case` (False for a cased vocabulary), text is lower-cased,
    decomposed (NFD) and loses its combining marks; punctuation characters
    become words of their own.

    Source: `BasicTokenizer` of the original, which worked word by word: no step
    here looks across white space, so the whole text gives the same.
    """

    def __init__(self, do_lower_case: bool = True):
        self.do_lower_case = do_lower_case
        self._clean = _CharacterTable(_clean)
        isolate = _drop_mark_or_split if do_lower_case else _split
        self._split = _CharacterTable(isolate)

    def tokenize(self, text: str | bytes) -> list[str]:
        """Cuts text (bytes are read as UTF-8) into words and punctuation."""
        return self.normalize(convert_to_unicode(text)).split()

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Returns start and end of each word; see `FullTokenizer.spans`."""
        # Beside others a character may become another letter, a last sigma,
        # but not more or fewer ones.
        sources = [i for i, one in enumerate(text) for _ in self.normalize(one)]
        found, kept = [], [*sources, len(text)]
        for word in re.finditer(r"\S+", self.normalize(text)):
            last = sources[word.end() - 1]
            between = range(last + 1, kept[bisect.bisect_right(sources, last)])
            marks = [
                i for i in between if unicodedata.category(text[i]) == "Mn"
            ]
            found.append((sources[word.start()], max([last, *marks]) + 1))
        return found

    def normalize(self, text: str) -> str:
        """Returns text whose words and punctuation white space separates."""
        text = text.translate(self._clean)
        if self.do_lower_case:
            text = unicodedata.normalize("NFD", text.lower())
        return text.translate(self._split)


class WordpieceTokenizer:
    """Words to the longest pieces of a vocabulary, from left to right.

    For example `unaffable` becomes `un`, `##aff`, `##able`. The vocabulary must
    not change afterwards. A word that cannot be cut, or is longer than
    `max_input_chars_per_word`, becomes `unk_token`.

    Source: `WordpieceTokenizer` of the original.
    """

    def __init__(
        self,
        vocab: Collection[str],
        unk_token: str = "[UNK]",
        max_input_chars_per_word: int = 200,
    ):
        self.vocab = vocab
        self.unk_token = unk_token
        self.max_input_chars_per_word = max_input_chars_per_word
        self._longest_piece = max(map(len, vocab), default=0)

    def tokenize(self, text: str | bytes) -> list[str]:
        """Cuts each word of the white-space separated text into pieces."""
        pieces = []
        for word in convert_to_unicode(text).split():
            pieces.extend(self._cut(word) or [self.unk_token])
        return pieces

    def _cut(self, word: str) -> list[str] | None:
        """Returns the pieces of a word, None if it cannot be cut."""
        if len(word) > self.max_input_chars_per_word:
            return None
        pieces = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            end = min(len(word), start + self._longest_piece)
            while end > start and prefix + word[start:end] not in self.vocab:
                end -= 1
            if end == start:
                return None
            pieces.append(prefix + word[start:end])
            start = end
        return pieces


def any_of(tokens: Collection[str]) -> str:
    """Returns the regular expression (one group) of the longest of tokens."""
    if isinstance(tokens, str) or "" in tokens:
        raise ValueError(
            f"never_split is {tokens!r}; expected a list of tokens, none of "
            'them empty: for example ["[MASK]"].'
        )
    longest_first = sorted(tokens, key=len, reverse=True)
    return f"({'|'.join(map(re.escape, longest_first))})"


def convert_by_vocab(vocab: Mapping[Any, Any], items: Iterable[Any]) -> list:
    """Returns the vocabulary's value of every token or id; else KeyError."""
    try:
        return [vocab[item] for item in items]
    except KeyError as error:
        raise KeyError(
            f"{error.args[0]!r} is not in the vocabulary of {len(vocab)} "
            "entries; use the one that the tokens or ids were made with."
        ) from None


# Other names of the original.
convert_tokens_to_ids = convert_ids_to_tokens = convert_by_vocab


def convert_to_unicode(text: str | bytes) -> str:
    """Returns text as `str`; bytes are read as UTF-8, bad ones dropped."""
    if isinstance(text, str):
        return text
    if isinstance(text, bytes):
        return text.decode("utf-8", "ignore")
    raise ValueError(
        f"Unsupported string type: {type(text)}; give a str, or UTF-8 bytes."
    )


# Functions of the original.
printable_text, whitespace_tokenize = convert_to_unicode, str.split


def whole_characters(text: str) -> str:
    """Replaces half characters, which UTF-8 does not have."""
    # The tokenizer drops U+FFFD, which keeps the places of all others.
    return _SURROGATES.sub("\ufffd", text)


def validate_case_matches_checkpoint(
    do_lower_case: bool, init_checkpoint: str | None
) -> None:
    """Refuses a casing that contradicts the name of a released checkpoint.

    The names of the released folders tell the casing of the text, as
    `uncased_L-12_H-768_A-12/bert_model.ckpt`. Any other name is accepted.

    Source: function of the same name of the original's tokenization.py.
    """
    released = "^.*?([A-Za-z0-9_-]+)/bert_model.ckpt"
    match = re.match(released, init_checkpoint or "")
    model = match and match[1]
    expected = _LOWER_CASED.get(model, do_lower_case)
    if bool(do_lower_case) != expected:
        raise ValueError(
            f"--do_lower_case={bool(do_lower_case)} does not fit "
            f"--init_checkpoint={init_checkpoint}: {model} was pretrained on "
            f"{'lower-cased' if expected else 'cased'} text; pass "
            f"--do_lower_case={expected}, or rename the folder if it holds "
            "another model."
        )


class _CharacterTable(dict):
    """A table for `str.translate` that is filled on demand."""

    def __init__(self, replace: Callable[[str], str | None]):
        super().__init__()
        self._replace = replace

    def __missing__(self, code_point: int) -> str | None:
        self[code_point] = replacement = self._replace(chr(code_point))
        return replacement


class _Memo(dict):
    """A cache: word -> tuple of its parts. It is cleared when it is full."""

    _MAX_WORDS = 1 << 18
    _MAX_CHARACTERS = 64  # longer words are rarely repeated

    def __init__(self, compute: Callable[[str], Iterable[Any]]):
        super().__init__()
        self._compute = compute

    def __missing__(self, word: str) -> tuple[Any, ...]:
        parts = tuple(self._compute(word))
        if len(word) <= self._MAX_CHARACTERS:
            if len(self) >= self._MAX_WORDS:
                self.clear()
            self[word] = parts
        return parts


def _clean(char: str) -> str | None:
    """Deletes control characters, normalises white space, isolates CJK."""
    category = unicodedata.category(char)
    if char in "\t\n\r" or category == "Zs":
        return " "
    if char in "\0\ufffd" or category in ("Cc", "Cf"):
        return None
    if _CJK.match(char):
        return f" {char} "
    return char


def _split(char: str) -> str:
    """Isolates punctuation, to which all ASCII symbols count."""
    is_ascii_symbol = "!" <= char <= "~" and not char.isalnum()
    if is_ascii_symbol or unicodedata.category(char).startswith("P"):
        return f" {char} "
    return char


def _drop_mark_or_split(char: str) -> str | None:
    """Deletes combining marks (accents), isolates punctuation."""
    return None if unicodedata.category(char) == "Mn" else _split(char)
