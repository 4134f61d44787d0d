"""Converts the wordpieces of an answer to text of the paragraph.

The model's answer is a range of wordpieces: lower-cased, without accents,
possibly parts of words. The final text is the matching text of the paragraph.
"""

from data.squad.windows import TokenizedParagraph


class FinalTexts:
    """The texts of a paragraph's wordpieces.

    Attributes:
      of: the paragraph.
    """

    def __init__(self, of: TokenizedParagraph):
        self.of = of
        self._words = of.words
        self._tokenizer = of.tokenizer.basic_tokenizer
        # Other windows and questions on this paragraph need the same texts.
        self._found: dict[tuple[int, int], tuple[str, int, int]] = {}
        self._normalized: dict[int, str] = {}

    def find(self, first: int, last: int) -> tuple[str, int, int]:
        """Returns the text of some wordpieces and its place in the context.

        It is the original's, with single spaces between words; the place is the
        first character and the end (exclusive).

        Source: get_final_text and its caller in run_squad.py.
        """
        key = first, last
        if key not in self._found:
            self._found[key] = self._find(first, last)
        return self._found[key]

    def _find(self, first: int, last: int) -> tuple[str, int, int]:
        words = self.of.word_of_token
        begin, end = words[first], words[last]
        skipped, length = 0, len(self._words[end])
        # The text of whole words is the words themselves. The original's
        # get_final_text finds all of their characters, or it finds nothing
        # ([UNK]) and returns the words.
        bounds = self.of.bounds
        if (bounds[begin], bounds[end + 1]) != (first, last + 1):
            part = self._part(self._wordpiece_text(first, last), begin, end)
            if part:
                begin, skipped, end, length = part
        text = " ".join([*self._words[begin:end], self._words[end][:length]])
        offsets = self.of.offsets
        return text[skipped:], offsets[begin] + skipped, offsets[end] + length

    def _wordpiece_text(self, first: int, last: int) -> str:
        text = " ".join(self.of.tokens(first, last + 1))
        return " ".join(text.replace(" ##", "").replace("##", "").split())

    def _part(
        self, text: str, begin: int, end: int
    ) -> tuple[int, int, int, int] | None:
        """Finds a normalized text in words by counting characters.

        Returns the word and the character where it starts, and those where it
        ends (exclusive); None if the text is not found, or normalization
        changed the number of characters.
        """
        normalized = map(self._normalize, range(begin, end + 1))
        whole = " ".join(filter(None, normalized))
        start = whole.find(text)
        words = self._words[begin : end + 1]
        num_characters = len(whole) - whole.count(" ")
        if start < 0 or num_characters != sum(map(len, words)):
            return None
        first = start - whole.count(" ", 0, start)
        last = first + len(text) - text.count(" ") - 1
        first_word, first_character = _locate(words, first)
        last_word, last_character = _locate(words, last)
        start = begin + first_word, first_character
        return (*start, begin + last_word, last_character + 1)

    def _normalize(self, word: int) -> str:
        """Returns the basic tokens of a word, separated by spaces."""
        if word not in self._normalized:
            text = self._words[word]
            if not (text.isascii() and text.isalnum()):
                text = " ".join(self._tokenizer.tokenize(text))
            elif self._tokenizer.do_lower_case:
                text = text.lower()  # fast path for most words
            self._normalized[word] = text
        return self._normalized[word]


def _locate(words: list[str], character: int) -> tuple[int, int]:
    """Converts an index into all characters to a word and a character of it."""
    for number, word in enumerate(words):
        if character < len(word):
            return number, character
        character -= len(word)
    raise IndexError(f"character {character} is behind the words.")
