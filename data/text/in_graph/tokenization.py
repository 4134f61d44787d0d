r"""FullTokenizer from TensorFlow operations, for tf.data and SavedModels.

            +-- plain ASCII -> lower-case -> words and wordpieces --+
    texts --+                                                       +--> ids
            +-- others -> characters -> words -> wordpieces --------+

Nearly every line of English takes the upper road, which is several times as
fast. On the lower one a table (`characters`) says what becomes of a
character. It is computed from `tokenization` when the tokenizer is made, and
travels in the graph. TensorFlow's own tables have other Unicode versions and
partly other rules, and are not used. For each of the 1,112,064 code points,
alone or between letters, the ids equal `FullTokenizer`'s. The graph keeps the
Unicode version of the Python that made it, whatever process runs it.

Axis letters: B texts of a batch, L letters, W words.
"""

import functools
from collections.abc import Collection, Mapping

import tensorflow as tf
import tensorflow_text as tf_text

from data.text import tokenization
from data.text.in_graph.characters import CharacterTable
from data.text.vocabulary import load_vocab, require_tokens

_UNKNOWN = "[UNK]"
_MAX_CHARACTERS_PER_WORD = 200
_MAX_BYTES_PER_PIECE = 256  # of FastWordpieceTokenizer, without ##
_PLAIN = r"[\t\n\r -~]*"


class InGraphTokenizer:
    """Texts to the ids of `FullTokenizer`, inside a TensorFlow graph.

    For example `dataset.map(InGraphTokenizer("vocab.txt").tokenize)` on
    batches of texts. The vocabulary becomes part of the graph: a SavedModel
    that calls this needs no other file and no initialisation, only
    `import tensorflow_text` in the process that loads it.

    `vocab_file` is the path of a vocabulary, or token -> id; for the others see
    `FullTokenizer`. Raises ValueError if the vocabulary has no `[UNK]`, lacks a
    token of `never_split`, or has a wordpiece of more than 256 bytes.
    """

    def __init__(
        self,
        vocab_file: str | Mapping[str, int],
        do_lower_case: bool = True,
        never_split: Collection[str] = (),
    ):
        vocab = vocab_file
        if isinstance(vocab, str):
            vocab = load_vocab(vocab_file)
        else:
            vocab_file = "the vocabulary"  # for errors
        self._never_split = never_split and tokenization.any_of(never_split)
        require_tokens(vocab, [_UNKNOWN, *never_split], vocab_file)
        pieces = _reachable_pieces(vocab, do_lower_case, vocab_file)
        self._do_lower_case = do_lower_case
        self._unknown_id = vocab[_UNKNOWN]
        # Tables stay where their operations run, also on a machine with GPUs.
        with tf.device("/CPU:0"):
            wordpieces = functools.partial(
                tf_text.FastWordpieceTokenizer, pieces, token_out_type=tf.int32
            )
            self._plain_wordpieces = wordpieces(
                max_bytes_per_word=_MAX_CHARACTERS_PER_WORD
            )
            self._wordpieces = wordpieces(
                max_bytes_per_word=4 * _MAX_CHARACTERS_PER_WORD,  # of UTF-8
                no_pretokenization=True,
            )
            lengths = [len(piece.removeprefix("##")) for piece in pieces]
            self._piece_lengths = tf.constant(lengths, tf.int64)
            self._characters = CharacterTable(do_lower_case)
            self._whole_tokens = tf.constant(list(never_split), tf.string)
            ids = [vocab[token] for token in never_split]
            self._whole_ids = tf.constant(ids, tf.int32)

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Cuts texts into WordPieces: int32 [B, (wordpieces of the text)].

        Texts are string [B], UTF-8; bytes that are not are dropped.
        """
        return self.tokenize_with_offsets(texts)[0]

    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Cuts texts into WordPieces and says where each came from.

        `text[start:end]` are the characters that the wordpiece was made of and
        the combining marks that follow them: `cafe` made of `café` gives `café`
        also where the accent is a character of its own. Deleted characters
        (control characters, accents on nothing) count as characters but begin
        and end no span. Spans ascend; two share a character only if it was cut
        in two (a Korean syllable by NFD). Of marks that NFD reorders, the first
        gets the place of the first.

        Returns ids, starts and ends (exclusive), int32 [B, (wordpieces)] each;
        offsets count code points of the text without its bad bytes, from 0.
        """
        texts = tf.convert_to_tensor(texts, tf.string)
        if texts.shape.rank != 1:
            raise ValueError(
                f"texts have the shape {texts.shape}; expected a batch of "
                "texts, [B]: put a single text into a list."
            )
        cut = self._cut_around if self._never_split else self._cut
        with tf.device("/CPU:0"):
            pieces = cut(texts)
            columns = tf.unstack(pieces.values, axis=1)
            return tuple(map(pieces.with_values, columns))

    # A "piece" below is int32 [3]: its id, start and end.

    def _cut_around(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Cuts texts, but keeps the tokens of `never_split` whole."""
        texts = tf.strings.unicode_transcode(
            texts, "UTF-8", "UTF-8", errors="ignore"
        )
        # No byte of UTF-8 is 0xFF.
        marked = tf.strings.regex_replace(
            texts, self._never_split, b"\xff\\1\xff"
        )
        parts = tf.strings.split(marked, b"\xff")
        part = parts.values
        is_token = tf.equal(part[:, tf.newaxis], self._whole_tokens)
        is_whole = tf.reduce_any(is_token, 1)
        ids = tf.gather(self._whole_ids, tf.argmax(is_token, 1))
        lengths = tf.strings.length(part, "UTF8_CHAR")
        piece = tf.stack([ids, tf.zeros_like(ids), lengths], 1)
        whole = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(piece, is_whole), tf.cast(is_whole, tf.int64)
        )
        others = self._cut(tf.where(is_whole, "", part))
        pieces = tf.concat([others, whole], axis=1)
        # Offsets in the part become offsets in the text.
        before = tf.cumsum(lengths, exclusive=True)
        rows = parts.value_rowids()
        before -= tf.gather(before, tf.gather(parts.row_starts(), rows))
        shift = tf.stack([tf.zeros_like(before), before, before], 1)
        shifted = pieces.values + tf.gather(shift, pieces.value_rowids())
        return parts.with_values(pieces.with_values(shifted)).merge_dims(1, 2)

    def _cut(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Cuts plain ASCII texts and other texts, each in its own way."""
        is_plain = tf.strings.regex_full_match(texts, _PLAIN)

        def cut_apart() -> tf.RaggedTensor:
            plain, others = tf.where(is_plain)[:, 0], tf.where(~is_plain)[:, 0]
            of_plain = self._cut_plain(tf.gather(texts, plain))
            of_others = self._cut_others(tf.gather(texts, others))
            pieces = tf.concat([of_plain, of_others], axis=0)
            order = tf.math.invert_permutation(tf.concat([plain, others], 0))
            return tf.gather(pieces, order)

        return tf.cond(
            tf.reduce_all(is_plain), lambda: self._cut_plain(texts), cut_apart
        )

    def _cut_plain(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Cuts texts of printable ASCII and white space; bytes are characters.

        On these TensorFlow's idea of words and punctuation is BERT's.
        """
        if self._do_lower_case:
            texts = tf.strings.lower(texts)
        ids, starts, ends = self._plain_wordpieces.tokenize_with_offsets(texts)
        offsets = [tf.cast(x.values, tf.int32) for x in (starts, ends)]
        return ids.with_values(tf.stack([ids.values, *offsets], 1))

    def _cut_others(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Cuts any texts, character by character."""
        # The line's end keeps the last word of a text from the first of the
        # next: from here on the batch is one long text.
        texts = tf.strings.join([texts, "\n"])
        texts = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        letters, starts, ends, words = self._characters.cut(texts.values)
        ids, num_letters = self._look_up(letters, words)
        last = tf.cumsum(num_letters)
        starts = tf.gather(starts, last - num_letters)
        ends = tf.gather(ends, last - 1)
        splits = tf.searchsorted(starts, texts.row_splits, out_type=tf.int64)
        rows = tf.RaggedTensor.from_row_splits(ids, splits)
        shift = tf.gather(texts.row_splits, rows.value_rowids())
        offsets = [tf.cast(x - shift, tf.int32) for x in (starts, ends)]
        return rows.with_values(tf.stack([ids, *offsets], 1))

    def _look_up(
        self, letters: tf.Tensor, words: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ids and numbers of letters of the wordpieces of words.

        `letters` int32 [L] are the code points of all words; `words` int64 [W +
        1] is where words begin, and L.
        """
        word = tf.RaggedTensor.from_row_splits(letters, words, validate=False)
        word = tf.strings.unicode_encode(word, "UTF-8")
        num_letters = words[1:] - words[:-1]
        # No wordpiece has a space.
        word = tf.where(num_letters > _MAX_CHARACTERS_PER_WORD, " ", word)
        pieces = self._wordpieces.tokenize(word)
        lengths = tf.where(
            pieces.values == self._unknown_id,
            tf.gather(num_letters, pieces.value_rowids()),
            tf.gather(self._piece_lengths, pieces.values),
        )
        return pieces.values, lengths


def _reachable_pieces(
    vocab: Mapping[str, int], do_lower_case: bool, path: str
) -> list[str]:
    """Returns the wordpiece of every id, or a control character and a number.

    FastWordpieceTokenizer would refuse some of those that no text is cut into
    anyway: a repeated one whose later id counts, one of over 200 letters.
    """
    basic = tokenization.BasicTokenizer(do_lower_case)
    pieces = [f"\x7f{i}" for i in range(max(vocab.values()) + 1)]
    for token, i in vocab.items():
        word = token.removeprefix("##")
        is_long = len(word) > _MAX_CHARACTERS_PER_WORD
        if is_long or (basic.tokenize(word) != [word] and token != _UNKNOWN):
            continue
        if len(word.encode()) > _MAX_BYTES_PER_PIECE:
            raise ValueError(
                f"{path}, line {i + 1}: {word[:20]!r}... has "
                f"{len(word.encode())} bytes; the graph's tokenizer takes "
                f"{_MAX_BYTES_PER_PIECE}: remove it, or use FullTokenizer."
            )
        pieces[i] = token
    return pieces
