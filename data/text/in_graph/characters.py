"""`BasicTokenizer`'s rules for characters, as a table in a TensorFlow graph.

The table has the class of each character: it is deleted, a combining mark that
is removed, white space, a word of its own, or letters of a word. Two rules of
`str.lower` and NFD also depend on neighbours: a capital sigma at the end of a
word, and the order of combining marks.

Axis letters: C characters, L letters, W words.
"""

import functools
import unicodedata

import numpy as np
import tensorflow as tf

from data.text import tokenization

_SIGMA = ord("Σ")

# Classes of characters; comparisons below rely on their order. A character that
# becomes n letters (NFD splits the Korean syllable 한 into three) has the class
# _LETTER + n - 1.
_NOTHING, _MARK, _SPACE, _ALONE, _LETTER = range(5)
# Classes of the characters next to a capital sigma.
_UNCASED, _CASED, _IGNORED = range(3)


class CharacterTable:
    """Cuts characters into words as `BasicTokenizer` does.

    An entry of the table has 32 bits. From the lowest:
      21: the character XOR its letter, so that most entries are equal; for
        several letters, their start in `_several`.
      3: the class, `_NOTHING` to `_LETTER + 2`.
      6: rank of its canonical combining class: 0 for all but marks.
      2: `_UNCASED`, `_CASED` or `_IGNORED`.

    Entries are stored in blocks of 256, equal blocks once.
    """

    def __init__(self, do_lower_case: bool):
        tables = map(tf.constant, _tables(do_lower_case))
        self._block_starts, self._blocks, self._several = tables
        self._do_lower_case = do_lower_case

    def cut(self, characters: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Cuts int32 [C] code points into words.

        At least one of them becomes something, white space included. Returns
        the `letters` of all words, int32 [L]; the characters where each letter
        `starts` and `ends` (exclusive, with the last mark on it), int64 [L];
        and where in `letters` each of the `words` begins, and L, int64 [W + 1].
        """
        entries = self._look_up(characters)
        kinds = _kind(entries)
        letters = characters ^ _payload(entries)
        if self._do_lower_case:
            letters = _finish_sigmas(letters, characters, entries)
        # A mark is on the last character before it that is kept.
        present = tf.where(kinds > _NOTHING)[:, 0]
        kept = tf.where(tf.gather(kinds, present) > _MARK)[:, 0]
        next_kept = tf.concat([kept[1:], tf.shape(present, tf.int64)], 0)
        starts = tf.gather(present, kept)
        ends = tf.gather(present, next_kept - 1) + 1
        letters = tf.gather(letters, starts)
        kinds = tf.gather(kinds, starts)
        if self._do_lower_case:
            made = kinds, letters, starts, ends
            kinds, letters, starts, ends = tf.cond(
                tf.reduce_any(kinds > _LETTER),
                lambda: self._spell_out(made, entries),
                lambda: made,
            )
            letters = tf.cond(
                tf.reduce_any(_rank(tf.gather(entries, starts)) > 0),
                lambda: self._reorder_marks(letters, starts, entries),
                lambda: letters,
            )
        return _join_words(kinds, letters, starts, ends)

    def _look_up(self, characters: tf.Tensor) -> tf.Tensor:
        block = tf.bitwise.right_shift(characters, 8)
        start = tf.gather(self._block_starts, block)
        return tf.gather(self._blocks, start + (characters & 0xFF))

    def _spell_out(
        self, made: tuple[tf.Tensor, ...], entries: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """Puts several letters where a character becomes several."""
        counts = tf.maximum(made[0] - _LETTER + 1, 1)
        source = tf.repeat(tf.range(tf.size(counts)), counts)
        first = tf.gather(tf.cumsum(counts, exclusive=True), source)
        kinds, letters, starts, ends = (tf.gather(x, source) for x in made)
        place = _payload(tf.gather(entries, starts)) + tf.range(tf.size(source))
        is_several = kinds > _LETTER
        place = tf.where(is_several, place - first, 0)
        letters = tf.where(is_several, tf.gather(self._several, place), letters)
        return tf.minimum(kinds, _LETTER), letters, starts, ends

    def _reorder_marks(
        self, letters: tf.Tensor, starts: tf.Tensor, entries: tf.Tensor
    ) -> tf.Tensor:
        """Puts the marks that are kept into canonical order.

        They trade places between two characters that are not marks, whether
        those are kept or, as marks of class 0, dropped.
        """
        is_base = (_kind(entries) > _NOTHING) & (_rank(entries) == 0)
        base = tf.gather(tf.cumsum(tf.cast(is_base, tf.int32)), starts)
        rank = _rank(self._look_up(letters))
        return tf.gather(letters, tf.argsort(base * 64 + rank, stable=True))


def _payload(entries: tf.Tensor) -> tf.Tensor:
    return entries & 0x1FFFFF


def _kind(entries: tf.Tensor) -> tf.Tensor:
    return tf.bitwise.right_shift(entries, 21) & 0b111


def _rank(entries: tf.Tensor) -> tf.Tensor:
    return tf.bitwise.right_shift(entries, 24) & 0b111111


def _case(entries: tf.Tensor) -> tf.Tensor:
    return tf.bitwise.right_shift(entries, 30) & 0b11


def _finish_sigmas(
    letters: tf.Tensor, characters: tf.Tensor, entries: tf.Tensor
) -> tf.Tensor:
    """Gives the final form to what `str.lower` takes for a word's last sigma.

    That is a capital sigma after a cased character and before none, where
    characters that case ignores, such as `'`, do not count.
    """

    def finish() -> tf.Tensor:
        case = _case(entries)
        counts = (_kind(entries) > _NOTHING) & (case != _IGNORED)
        places = tf.where(counts)
        is_cased = tf.gather_nd(case, places) == _CASED
        is_sigma = tf.gather_nd(characters, places) == _SIGMA
        is_after_cased = tf.concat([[False], is_cased[:-1]], 0)
        is_before_cased = tf.concat([is_cased[1:], [False]], 0)
        is_final = is_sigma & is_after_cased & ~is_before_cased
        # From σ to ς, the code point before it.
        steps = tf.cast(is_final, tf.int32)
        return tf.tensor_scatter_nd_sub(letters, places, steps)

    return tf.cond(tf.reduce_any(characters == _SIGMA), finish, lambda: letters)


def _join_words(
    kinds: tf.Tensor, letters: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Drops white space and finds where words begin; returns as `cut`."""
    is_letter = kinds >= _LETTER
    begins = ~(is_letter & tf.concat([[False], is_letter[:-1]], 0))
    written = tf.where(kinds > _SPACE)[:, 0]
    letters, starts, ends, begins = (
        tf.gather(x, written) for x in (letters, starts, ends, begins)
    )
    words = tf.concat([tf.where(begins)[:, 0], tf.shape(letters, tf.int64)], 0)
    return letters, starts, ends, words


@functools.cache
def _tables(do_lower_case: bool) -> tuple[np.ndarray, ...]:
    """Returns where each character's block starts, all blocks, `_several`."""
    basic = tokenization.BasicTokenizer(do_lower_case)
    characters = list(map(chr, range(0x110000)))
    classes = list(map(unicodedata.combining, characters))
    ranks = {x: rank for rank, x in enumerate(sorted(set(classes)))}
    entries = np.full(len(characters), _LETTER << 21, np.uint32)
    several = []
    for first in range(0, len(characters), 256):
        block = characters[first : first + 256]
        # Unassigned, private and surrogate characters are letters: BERT's
        # ranges of ideographs fill no block of them.
        if set(map(unicodedata.category, block)) <= {"Cn", "Co", "Cs"}:
            continue
        for i, character in enumerate(block, first):
            kind, made = _become(character, basic.normalize(character))
            payload = i ^ ord(made[0])
            if len(made) > 1:
                payload = len(several)
                several += map(ord, made)
            kind += len(made) - 1
            rank, case = ranks[classes[i]], _case_of(character)
            entries[i] = payload | kind << 21 | rank << 24 | case << 30
    blocks = [block.tobytes() for block in entries.reshape(-1, 256)]
    starts = {block: 256 * i for i, block in enumerate(dict.fromkeys(blocks))}
    return (
        np.array([starts[block] for block in blocks], np.int32),
        np.frombuffer(b"".join(starts), np.int32),
        np.array(several, np.int32),
    )


def _become(character: str, normal: str) -> tuple[int, str]:
    """Returns what kind of thing a character becomes, and its letters."""
    letters = normal.strip()
    if letters:
        return (_ALONE if normal[0] == " " else _LETTER), letters
    if normal:
        return _SPACE, character
    is_mark = unicodedata.category(character) == "Mn"
    return (_MARK if is_mark else _NOTHING), character


def _case_of(character: str) -> int:
    """Returns how Python treats a character beside a capital sigma."""
    if f"{character}Σ".lower().endswith("ς"):
        return _CASED
    if f"A{character}Σ".lower().endswith("ς"):
        return _IGNORED
    return _UNCASED
