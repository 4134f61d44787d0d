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
        word_of_token, bounds = self.of.word_of_token, self.of.bounds
        begin, end = word_of_token[first], word_of_token[last]
        text = " ".join(self._words[begin : end + 1])
        start, stop = 0, len(text)
        # The text of whole words is the words themselves. The original's
        # get_final_text finds all of their characters, or it finds nothing
        # ([UNK]) and returns the words.
        if (bounds[begin], bounds[end + 1]) != (first, last + 1):
            pieces = " ".join(self.of.tokens(first, last + 1))
            pieces = pieces.replace(" ##", "").replace("##", "").split()
            normalized = map(self._normalize, range(begin, end + 1))
            normalized = " ".join(filter(None, normalized))
            found = _find_part(" ".join(pieces), normalized, text)
            start, stop = found or (start, stop)

        def place(character: int) -> int:
            word = text.count(" ", 0, character)
            in_word = character - text.rfind(" ", 0, character) - 1
            return self.of.offsets[begin + word] + in_word

        return text[start:stop], place(start), place(stop - 1) + 1

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


def _find_part(part: str, normalized: str, text: str) -> tuple[int, int] | None:
    """Finds the characters of a text that a part of its normal form stands for.

    They are counted without spaces. Returns the first one and the end
    (exclusive); None if the part is not found, or normalization changed the
    number of characters.
    """
    start = normalized.find(part)
    places = [i for i, character in enumerate(text) if character != " "]
    num_characters = len(normalized) - normalized.count(" ")
    if not part or start < 0 or num_characters != len(places):
        return None
    first = start - normalized.count(" ", 0, start)
    last = first + len(part) - part.count(" ") - 1
    return places[first], places[last] + 1
